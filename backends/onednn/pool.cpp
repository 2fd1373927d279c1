#include "engine/ops/pool.hpp"
#include "backends/onednn/max_pool.hpp"

namespace keelson::onednn {
namespace {

using dnnl::pooling_backward;
using dnnl::pooling_forward;
using ops::Role;
using ops::Verb;

dnnl::algorithm to_algorithm(const ops::PoolParams& p) {
  if (p.kind == ops::PoolKind::max) return dnnl::algorithm::pooling_max;
  return p.count_padding ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding;
}

/// The parameters of a description in oneDNN's form.
struct Windows {
  explicit Windows(const ops::PoolParams& p)
      : algorithm(to_algorithm(p)),
        stride(to_dims(p.stride)),
        kernel(to_dims(p.kernel)),
        gaps(kernel.size(), 0),
        begin(to_dims(p.pad_begin)),
        end(to_dims(p.pad_end)) {}
  dnnl::algorithm algorithm;
  dnnl::memory::dims stride, kernel, gaps, begin, end;
};

pooling_forward::primitive_desc describe(const LibraryPtr& library, const ops::PoolDesc& d, const Windows& w) {
  const auto kind = d.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return {library->engine, kind,   w.algorithm, to_desc(d.src), to_desc(d.dst), w.stride,
          w.kernel,        w.gaps, w.begin,     w.end,          attributes()};
}

class Pool final : public CallPrimitive<ops::Pool> {
 public:
  Pool(const LibraryPtr& library, const ops::PoolDesc& d, const Windows& w,
       const pooling_forward::primitive_desc& forward) {
    const double flops = static_cast<double>(d.dst.elements()) * static_cast<double>(d.params.kernel.elements());
    const bool opaque = d.src.layout.is_opaque();
    require_fast(forward, Verb::forward, opaque);
    const auto dst = d.dst.with(to_layout(forward.dst_desc(), d.dst.shape));
    workspace_bytes_ = d.training ? forward.workspace_desc().get_size() : 0;
    auto& call = forward_call() = Call::make<pooling_forward>(library, forward, flops);
    call.bind(Role::src, DNNL_ARG_SRC, forward.src_desc(), d.src)
        .bind(Role::dst, DNNL_ARG_DST, forward.dst_desc(), dst);
    if (workspace_bytes_) call.bind_bytes(DNNL_ARG_WORKSPACE, forward.workspace_desc());
    call.own_scratch();
    if (!d.training) return;

    const pooling_backward::primitive_desc backward(library->engine, w.algorithm, forward.src_desc(),
                                                    forward.dst_desc(), w.stride, w.kernel, w.gaps, w.begin, w.end,
                                                    forward, attributes());
    require_fast(backward, Verb::backward_data, opaque);
    auto& back = data_call() = Call::make<pooling_backward>(library, backward, flops);
    back.bind(Role::diff_dst, DNNL_ARG_DIFF_DST, backward.diff_dst_desc(), dst)
        .bind(Role::diff_src, DNNL_ARG_DIFF_SRC, backward.diff_src_desc(), d.src);
    if (workspace_bytes_) back.bind_bytes(DNNL_ARG_WORKSPACE, forward.workspace_desc());
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst, workspace] = args;
    if (workspace_bytes_)
      forward_call().run({&src, &dst, &workspace});
    else
      forward_call().run({&src, &dst});
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, workspace, diff_src, scratch] = args;
    if (workspace_bytes_)
      data_call().run({&diff_dst, &diff_src, &workspace}, &scratch);
    else
      data_call().run({&diff_dst, &diff_src}, &scratch);
  }

 private:
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ops::Pool> make_pool(const LibraryPtr& library, const ops::PoolDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) decline("{} spatial dims; oneDNN pools over 1 to 3", spatial);
  auto desc = d;
  // oneDNN pools in the layout of src; all ops can read channels-last.
  if (desc.src.layout.is_any()) desc.src.layout = Layout::channels_last(d.src.shape);
  const Windows windows(d.params);
  const auto forward = describe(library, desc, windows);
  if (d.params.kind == ops::PoolKind::max && d.src.dtype != DType::f32)
    decline("oneDNN's max pooling loses NaN, and the loops of our own are for f32");
  if (d.params.kind == ops::PoolKind::max) return make_max_pool(desc, forward.src_desc(), forward.dst_desc());
  return std::make_unique<Pool>(library, desc, windows, forward);
}

}  // namespace keelson::onednn
