#include "engine/ops/combine.hpp"
#include "backends/onednn/support.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;

class Reorder final : public CallPrimitive<ops::Reorder> {
 public:
  Reorder(const LibraryPtr& library, const ops::ReorderDesc& d) {
    const auto groups = std::max(groups_of(d.src.layout, d.src.shape), groups_of(d.dst.layout, d.dst.shape));
    const auto src = to_desc(d.src, groups), dst = to_desc(d.dst, groups);
    const auto& engine = library->engine;
    const dnnl::reorder::primitive_desc pd(engine, src, engine, dst, attributes());
    // Accepts any implementation: only oneDNN knows most layouts here, and a context with only oneDNN must copy data,
    // too.
    forward_call() = Call::make<dnnl::reorder>(library, pd, 0);
    forward_call().bind(Role::src, DNNL_ARG_FROM, src, d.src).bind(Role::dst, DNNL_ARG_TO, dst, d.dst);
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst, scratch] = args;
    forward_call().run({&src, &dst}, &scratch);
  }
};

/// A call with any number of sources.
template <class Op>
class ManySources : public CallPrimitive<Op> {
 public:
  void forward(const typename Op::template Forward<ops::Tensors>& args) override {
    const auto& [srcs, dst] = args;
    for (std::size_t i = 0; i + 1 < operands_.size(); ++i) operands_[i] = &srcs[i];
    operands_.back() = &dst;
    this->forward_call().run(operands_.data(), operands_.size());
  }

 protected:
  void set_call(Call call, const typename Op::Desc& d, const std::vector<dnnl::memory::desc>& srcs,
                const dnnl::memory::desc& dst) {
    operands_.resize(srcs.size() + 1);
    for (std::size_t i = 0; i < srcs.size(); ++i)
      call.bind(Role::src, DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), srcs[i], d.srcs[i]);
    call.bind(Role::dst, DNNL_ARG_DST, dst, d.dst).own_scratch();
    this->forward_call() = std::move(call);
  }

 private:
  std::vector<const Tensor*> operands_;  // a member, so that forward allocates nothing
};

class Sum final : public ManySources<ops::Sum> {
 public:
  Sum(const LibraryPtr& library, const ops::SumDesc& d) {
    const auto md = to_desc(d.dst);
    const std::vector<dnnl::memory::desc> srcs(d.srcs.size(), md);
    const dnnl::sum::primitive_desc pd(library->engine, md, std::vector<float>(srcs.size(), 1.0f), srcs, attributes());
    require_fast(pd, Verb::forward, d.dst.layout.is_opaque());
    const double flops = static_cast<double>(d.dst.elements()) * static_cast<double>(srcs.size() - 1);
    set_call(Call::make<dnnl::sum>(library, pd, flops), d, srcs, md);
  }
};

class Concat final : public ManySources<ops::Concat> {
 public:
  Concat(const LibraryPtr& library, const ops::ConcatDesc& d) {
    const auto& engine = library->engine;
    const auto dst = to_desc(d.dst);
    std::vector<dnnl::memory::desc> srcs;
    for (const auto& s : d.srcs) srcs.push_back(to_desc(s));
    const dnnl::concat::primitive_desc pd(engine, dst, d.axis, srcs, attributes());
    require_fast(pd, Verb::forward, d.dst.layout.is_opaque());
    set_call(Call::make<dnnl::concat>(library, pd, 0), d, srcs, dst);
  }
};

class Softmax final : public CallPrimitive<ops::Softmax> {
 public:
  Softmax(const LibraryPtr& library, const ops::SoftmaxDesc& d) {
    const auto md = to_desc(d.src);
    const auto algorithm = dnnl::algorithm::softmax_accurate;
    const bool opaque = d.src.layout.is_opaque();
    const double flops = 5.0 * static_cast<double>(d.src.elements());  // maximum, difference, exp, sum, quotient
    const dnnl::softmax_forward::primitive_desc forward(library->engine, dnnl::prop_kind::forward_training, algorithm,
                                                        md, md, d.axis, attributes());
    require_fast(forward, Verb::forward, opaque);
    forward_call() = Call::make<dnnl::softmax_forward>(library, forward, flops);
    forward_call().bind(Role::src, DNNL_ARG_SRC, md, d.src).bind(Role::dst, DNNL_ARG_DST, md, d.src).own_scratch();
    const dnnl::softmax_backward::primitive_desc backward(library->engine, algorithm, md, md, md, d.axis, forward,
                                                          attributes());
    require_fast(backward, Verb::backward_data, opaque);
    data_call() = Call::make<dnnl::softmax_backward>(library, backward, flops);
    data_call()
        .bind(Role::diff_dst, DNNL_ARG_DIFF_DST, md, d.src)
        .bind(Role::dst, DNNL_ARG_DST, md, d.src)
        .bind(Role::diff_src, DNNL_ARG_DIFF_SRC, md, d.src)
        .own_scratch();
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst] = args;
    forward_call().run({&src, &dst});
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, dst, diff_src] = args;
    data_call().run({&diff_dst, &dst, &diff_src});
  }
};

void require_concrete(const TensorDesc& d) {
  if (d.layout.is_any()) decline("layout any for {}; this op takes its producer's layout", to_string(d.shape));
}

}  // namespace

std::unique_ptr<ops::Reorder> make_reorder(const LibraryPtr& library, const ops::ReorderDesc& d) {
  require_concrete(d.src);
  require_concrete(d.dst);
  return std::make_unique<Reorder>(library, d);
}

std::unique_ptr<ops::Sum> make_sum(const LibraryPtr& library, const ops::SumDesc& d) {
  require_concrete(d.dst);
  if (!d.is_alike()) decline("terms have another layout than dst; oneDNN sums only equal layouts");
  return std::make_unique<Sum>(library, d);
}

std::unique_ptr<ops::Concat> make_concat(const LibraryPtr& library, const ops::ConcatDesc& d) {
  for (const auto& s : d.srcs) require_concrete(s);
  require_concrete(d.dst);
  return std::make_unique<Concat>(library, d);
}

std::unique_ptr<ops::Softmax> make_softmax(const LibraryPtr& library, const ops::SoftmaxDesc& d) {
  require_concrete(d.src);
  return std::make_unique<Softmax>(library, d);
}

}  // namespace keelson::onednn
