#pragma once

#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/common/unsupported.hpp"
#include "backends/onednn/memory.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/eltwise.hpp"
#include "engine/ops/op_list.hpp"

/// The common part of the oneDNN primitives: one engine and stream, calls with prepared arguments, and the choice of
/// implementations.
namespace keelson::onednn {

using backends::decline;

/// The number of threads of primitives that oneDNN makes now, in the calling host thread.
int primitive_threads();

/// The choices for the latest descriptions. Deep networks contain the same convolution many times, and oneDNN takes
/// about 2 ms to try the candidates. A primitive is made for a number of threads, so a choice is, too.
template <class Desc, class Choice>
class Choices {
 public:
  template <class Choose>
  Choice get(const Desc& desc, const Choose& choose) {
    const std::scoped_lock lock(mutex_);
    const int threads = primitive_threads();
    for (const Known& k : latest_)
      if (k.threads == threads && k.desc == desc) return k.choice;
    if (latest_.size() == most) latest_.pop_front();
    latest_.push_back({desc, threads, choose()});
    return latest_.back().choice;
  }

 private:
  static constexpr std::size_t most = 64;
  struct Known {
    Desc desc;
    int threads;
    Choice choice;
  };
  std::mutex mutex_;
  std::deque<Known> latest_;
};

/// One CPU engine and one in-order stream. Execution on CPUs is synchronous (OpenMP runtime), with the threads of the
/// calling host thread. The stream has no state, so several host threads may use it.
struct Library {
  explicit Library(Device& d) : engine(dnnl::engine::kind::cpu, 0), stream(engine), device(d) {}
  dnnl::engine engine;
  dnnl::stream stream;
  Device& device;

  /// The library's single Choices object for these types.
  template <class Desc, class Choice>
  Choices<Desc, Choice>& chosen() {
    const std::scoped_lock lock(mutex_);
    auto& entry = choices_[typeid(Choice)];
    if (!entry) entry = std::make_shared<Choices<Desc, Choice>>();
    return *static_cast<Choices<Desc, Choice>*>(entry.get());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> choices_;
};
using LibraryPtr = std::shared_ptr<Library>;

/// User-managed scratchpad, strict fp32, deterministic; `activation` is a post-op.
dnnl::primitive_attr attributes(const ops::EltwiseParams& activation = {});

/// oneDNN's algorithm for an activation, with two parameters. The algorithms of forward and backward differ: backward
/// reads dst if derivative_from_dst(p), and forward's ReLU keeps NaN.
struct EltwiseAlgorithm {
  dnnl::algorithm algorithm;
  float alpha, beta;
};
EltwiseAlgorithm forward_algorithm(const ops::EltwiseParams& p);
EltwiseAlgorithm backward_algorithm(const ops::EltwiseParams& p);

/// 0 for a reference implementation, higher for faster kinds: gemm-based, JIT, JIT for AVX-512.
int implementation_rank(std::string_view implementation);

/// Makes a primitive descriptor from each candidate, in order of preference (fewest reorders first), and takes the
/// first one of the highest rank. Empty if oneDNN makes none.
template <class PrimitiveDesc, class Candidate, class Make>
PrimitiveDesc choose(const std::vector<Candidate>& candidates, const Make& make) {
  std::vector<PrimitiveDesc> made;
  int best = -1;
  for (const auto& c : candidates) {
    made.push_back(make(c));
    if (made.back()) best = std::max(best, implementation_rank(made.back().impl_info_str()));
  }
  for (auto& pd : made)
    if (pd && implementation_rank(pd.impl_info_str()) == best) return pd;
  return {};
}

/// Declines if oneDNN has nothing (an empty descriptor) or only its reference implementation. The reference
/// implementation is accepted if a tensor is `opaque`, which no other backend can read.
void require_fast(const dnnl::primitive_desc_base& pd, ops::Verb verb, bool opaque = false);

/// One verb of a primitive: oneDNN's primitive, memory objects and argument list, prepared so that execution only sets
/// pointers.
class Call {
 public:
  Call() = default;
  /// `flops`: FLOPs of the verb. Binds the scratchpad of `pd`.
  template <class P>
  static Call make(const LibraryPtr& library, const typename P::primitive_desc& pd, double flops) {
    return Call(library, P(pd), pd, flops);
  }

  /// The next operand of run(): oneDNN's argument number, the operand's descriptor, and the tensor of the engine.
  Call& bind(ops::Role role, int argument, const dnnl::memory::desc& md, const TensorDesc& tensor);
  /// An operand of `md`'s size without shape or layout: a workspace.
  Call& bind_bytes(int argument, const dnnl::memory::desc& md);
  /// Allocates own scratch memory, for ops that get none.
  Call& own_scratch();

  explicit operator bool() const { return static_cast<bool>(primitive_); }
  /// Operands in the order of bind(). Throws Error with oneDNN's status if execution fails.
  void run(std::initializer_list<const Tensor*> operands, const Tensor* scratch = nullptr) {
    run(operands.begin(), operands.size(), scratch);
  }
  void run(const Tensor* const* operands, std::size_t count, const Tensor* scratch = nullptr);

  /// Descriptor of the operand with that role (or its gradient), or null.
  const TensorDesc* find(ops::Role role) const;
  const std::string& name() const { return name_; }
  std::size_t scratch_bytes() const { return own_scratch_ ? 0 : scratch_bytes_; }
  ops::Cost cost() const;

 private:
  struct Operand {
    ops::Role role;
    bool shaped;
    TensorDesc tensor;
    dnnl::memory memory;
  };
  Call(const LibraryPtr& library, dnnl::primitive primitive, const dnnl::primitive_desc_base& pd, double flops);
  void point(const dnnl::memory& memory, void* data) const;
  void add(int argument, const dnnl::memory& memory) { arguments_.push_back({argument, memory.get()}); }

  LibraryPtr library_;
  dnnl::primitive primitive_;
  std::string name_;
  double flops_ = 0;
  std::vector<Operand> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
  dnnl::memory scratch_;
  std::size_t scratch_bytes_ = 0;
  std::shared_ptr<void> own_scratch_;
};

/// Implements the functions of ops::Primitive by the calls of the verbs.
template <class Op>
class CallPrimitive : public Op {
 public:
  Layout layout(ops::Verb verb, ops::Role role) const override {
    auto found = call(verb).find(role);
    if (!found) found = calls_[0].find(role);
    KEELSON_EXPECT(found);
    return found->layout;
  }
  std::string name(ops::Verb verb) const override { return call(verb).name(); }
  std::size_t scratch_bytes(ops::Verb verb) const override { return call(verb).scratch_bytes(); }
  ops::Cost cost(ops::Verb verb) const override { return call(verb).cost(); }

 protected:
  Call& call(ops::Verb verb) { return calls_[static_cast<std::size_t>(verb)]; }
  const Call& call(ops::Verb verb) const { return calls_[static_cast<std::size_t>(verb)]; }
  Call& forward_call() { return call(ops::Verb::forward); }
  Call& data_call() { return call(ops::Verb::backward_data); }
  Call& weights_call() { return call(ops::Verb::backward_weights); }

 private:
  std::array<Call, 3> calls_;
};

std::unique_ptr<ops::BatchNorm> make_batch_norm(const LibraryPtr& library, const ops::BatchNormDesc& d);
/// Of one group of rows; declines others.
std::unique_ptr<ops::GroupNorm> make_layer_norm(const LibraryPtr& library, const ops::GroupNormDesc& d);
std::unique_ptr<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d);
/// Uses a convolution of any backend of the context.
std::unique_ptr<ops::TransposedConv> make_transposed_conv(const LibraryPtr& library, const ops::TransposedConvDesc& d,
                                                          Context& context);
std::unique_ptr<ops::Dense> make_dense(const LibraryPtr& library, const ops::DenseDesc& d);
std::unique_ptr<ops::MatMul> make_matmul(const LibraryPtr& library, const ops::MatMulDesc& d);
std::unique_ptr<ops::Pool> make_pool(const LibraryPtr& library, const ops::PoolDesc& d);
std::unique_ptr<ops::Eltwise> make_eltwise(const LibraryPtr& library, const ops::EltwiseDesc& d);
std::unique_ptr<ops::Reorder> make_reorder(const LibraryPtr& library, const ops::ReorderDesc& d);
std::unique_ptr<ops::Sum> make_sum(const LibraryPtr& library, const ops::SumDesc& d);
std::unique_ptr<ops::Concat> make_concat(const LibraryPtr& library, const ops::ConcatDesc& d);
std::unique_ptr<ops::Softmax> make_softmax(const LibraryPtr& library, const ops::SoftmaxDesc& d);

/// Whether oneDNN uses these instructions on this processor. The sets are bit masks: a later set contains the earlier
/// sets.
bool has_instructions(dnnl::cpu_isa wanted);

}  // namespace keelson::onednn
