#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/ops/operands.hpp"
#include "engine/plan/update_builder.hpp"

/// Work on matrices whose results optimizers use some steps later.
namespace keelson::detail {

/// The matrices that a primitive will get some steps later.
struct BeginWorkDesc {
  std::vector<TensorDesc> srcs;  ///< their descs
};
/// Lets that primitive begin its work.
class BeginWork : public ops::DescribedPrimitive<BeginWorkDesc> {
 public:
  using Begin = std::function<void(const Tensor& step_params, const std::vector<Tensor>& srcs)>;
  /// `begin` calls the primitive. `worker`: for names.
  BeginWork(const ops::Primitive& worker, Begin begin, const BeginWorkDesc& d)
      : begin_(std::move(begin)), name_(worker.name(ops::Verb::forward)) {
    set_description(d);
    set_backend(worker.backend());
  }
  Layout layout(ops::Verb, ops::Role) const override { return Layout::any(); }
  std::string name(ops::Verb) const override { return name_; }

  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::step_params, ops::undescribed> step_params;
    ops::InList<K, ops::Role::src, &BeginWorkDesc::srcs> srcs;
  };
  void forward(const Forward<ops::Tensors>& args) { begin_(args.step_params, args.srcs); }

 private:
  Begin begin_;
  std::string name_;
};

/// Appends the copy of an array, in these steps.
inline void append_copy(UpdateBuilder& b, const std::string& node, BufferId from, BufferId to,
                        const Every& every = {}) {
  b.call<ops::Reorder, ops::Reorder::Forward>(node, "copy", b.make(ops::ReorderDesc{b.desc(from), b.desc(to)}),
                                              {.src = from, .dst = to}, every);
}

/// Appends, for these steps, copies of `factors` to `copies`, which are states, and the call that lets `worker` begin
/// to work on the copies.
inline void append_begin(UpdateBuilder& b, const ops::Primitive& worker, const BeginWork::Begin& begin,
                         const std::vector<BufferId>& factors, const std::vector<BufferId>& copies,
                         const Every& every) {
  BeginWorkDesc d;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    append_copy(b, "all factors", factors[i], copies[i], every);
    d.srcs.push_back(b.desc(copies[i]));
  }
  b.call<BeginWork, BeginWork::Forward>("all factors", "begin", std::make_shared<BeginWork>(worker, begin, d),
                                        {.step_params = b.step_params(), .srcs = copies}, every);
}

}  // namespace keelson::detail
