#include "backends/composed/dense_conv_max_pool.hpp"

#include <algorithm>

#include "backends/kokkos/pool/conv_max_pool_device.hpp"
#include "backends/kokkos/pool/unpool.hpp"
#include "engine/base/memory_parts.hpp"
#include "engine/ops/bias_gradient.hpp"
#include "engine/ops/combine.hpp"

namespace keelson::composed {

namespace {

using namespace ops;
using Operands = ops::Tensors;
using Index = std::int64_t;

/// Whole samples, or planes of one sample. The src planes are those that the verb reads or writes. The dst planes are
/// those of the convolution's result that belong to the src planes.
struct Tile {
  Index first_sample, samples, first_src, src_planes, first_dst, dst_planes;
  Index pad_begin, pad_end;  ///< padding of the tile's convolution

  bool same_shape(const Tile& o) const {
    return samples == o.samples && src_planes == o.src_planes && dst_planes == o.dst_planes &&
           pad_begin == o.pad_begin && pad_end == o.pad_end;
  }
};

/// The tile for `count` planes from `begin` on: planes of the convolution's result for the gradient of the weights,
/// planes of src for the gradient of src.
Tile tile_of(const ConvDesc& c, Verb verb, Index begin, Index count) {
  const Index kernel = c.params.kernel[0], pad = c.params.pad_begin[0];
  const Index src_planes = c.src.shape[2], dst_planes = c.dst.shape[2], end = begin + count;
  Tile t{};
  if (verb == Verb::backward_weights) {
    const Index src_begin = begin - pad, src_end = end - pad + kernel - 1;
    t.first_src = std::max<Index>(0, src_begin), t.src_planes = std::min(src_end, src_planes) - t.first_src;
    t.first_dst = begin, t.dst_planes = count;
    t.pad_begin = t.first_src - src_begin;
  } else {
    t.first_src = begin, t.src_planes = count;
    t.first_dst = std::max<Index>(0, begin + pad - kernel + 1);
    t.dst_planes = std::min(end + pad, dst_planes) - t.first_dst;
    t.pad_begin = pad + begin - t.first_dst;
  }
  t.pad_end = t.dst_planes + kernel - 1 - t.pad_begin - t.src_planes;
  return t;
}

class DenseConvMaxPool final : public ConvMaxPoolBackward {
 public:
  DenseConvMaxPool(const ConvMaxPoolDesc& d, Verb verb, Context& context, std::size_t tile_bytes) : d_(d), verb_(verb) {
    conv_.params = d.conv;
    conv_.params.activation = {};
    conv_.params.bias = false;
    conv_.src = {d.src.shape, d.compute, d.src.layout};
    conv_.weights = {d.weights.shape, d.compute, Layout::any()};
    const Shape dst = conv_dst_shape(d.src.shape, d.conv, d.weights.shape[0]);
    conv_.dst = {dst, DType::f32, Layout::channels_last(dst)};
    conv_.diff_src = verb == Verb::backward_data;
    conv_.diff_weights = verb == Verb::backward_weights;
    conv_.exact = d.exact;
    cut(tile_bytes);
    for (Kind& k : kinds_)
      if (unsupported_.empty()) unsupported_ = make_kind(k, context);
    if (unsupported_.empty() && verb == Verb::backward_weights && d.conv.bias) unsupported_ = make_bias(context);
    // Not the name of a kernel: other ranks may use another kernel for their tiles.
    name_ = fmt::format("dense_{} of unpooled planes", to_string(d.compute));
  }

  /// The reason why the primitive cannot be made; empty: it can.
  const std::string& unsupported() const { return unsupported_; }

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  std::string name(Verb) const override { return name_; }
  std::string_view backend_of(Verb v) const override { return kinds_[0].op->backend_of(v); }
  /// The same cost as that of the gradients by argmax indices: the other products are with zeros.
  Cost cost(Verb) const override {
    const auto windows = static_cast<double>(d_.dst.elements());
    const auto taps = static_cast<double>(d_.weights.elements()) / static_cast<double>(d_.weights.shape[0]);
    return {2 * taps * windows, static_cast<double>(d_.src.bytes() + d_.weights.bytes() + d_.dst.bytes()) + windows};
  }
  std::size_t scratch_bytes(Verb) const override {
    MemoryParts parts(nullptr);
    take(parts);
    return parts.used();
  }

  void backward_data(const BackwardData<Operands>& args) override {
    const auto& [diff_dst, workspace, weights, diff_src, scratch] = args;
    if (verb_ != Verb::backward_data) fail("made for {} only", to_string(verb_));
    MemoryParts parts(scratch.raw());
    const Parts s = take(parts);
    for (const Kind& k : kinds_) {
      const Tensor w = k.reorder ? Tensor(k.own_weights, s.weights) : weights;
      if (k.reorder) k.reorder->forward({weights, w, bytes(s.reorder, k.reorder->scratch_bytes(Verb::forward))});
      for (const Tile& t : k.tiles) {
        unpool(k, t, diff_dst, workspace, s.diff);
        k.op->backward_data({Tensor(k.diff_dst, s.diff), w, part_of_src(diff_src, t, k.diff_src),
                             bytes(s.scratch, k.op->scratch_bytes(verb_))});
      }
    }
  }
  void backward_weights(const BackwardWeights<Operands>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    if (verb_ != Verb::backward_weights) fail("made for {} only", to_string(verb_));
    MemoryParts parts(scratch.raw());
    const Parts s = take(parts);
    for (const Kind& k : kinds_) {
      const bool first = &k == &kinds_[0];
      const Tensor sum = first ? diff_weights : Tensor(diff_weights.desc(), s.converted);
      const Tensor own = k.reorder ? Tensor(k.own_weights, s.weights) : sum;
      for (std::size_t i = 0; i < k.tiles.size(); ++i) {
        const Tile& t = k.tiles[i];
        const Tensor part = rounded(part_of_src(src, t, k.diff_src), k.conv.src, s.src),
                     term = i == 0 ? own : Tensor(k.own_weights, s.term);
        unpool(k, t, diff_dst, workspace, s.diff);
        k.op->backward_weights(
            {part, Tensor(k.diff_dst, s.diff), term, Tensor(), bytes(s.scratch, k.op->scratch_bytes(verb_))});
        if (i > 0) add(term, own);
      }
      if (k.reorder) k.reorder->forward({own, sum, bytes(s.reorder, k.reorder->scratch_bytes(Verb::forward))});
      if (!first) add(sum, diff_weights);
    }
    if (bias_) bias_->backward_weights({diff_dst, diff_bias, bytes(s.bias, bias_->scratch_bytes(verb_))});
  }

 private:
  /// Tiles of one shape, with their primitive and its operands.
  struct Kind {
    std::vector<Tile> tiles;
    ConvDesc conv;
    TensorDesc diff_src, diff_dst,
        own_weights;  ///< the last member: the weights or their gradient, in the primitive's layout and dtype
    std::unique_ptr<Conv> op;
    std::unique_ptr<Reorder> reorder;  ///< between own_weights and the op's weights; null: no difference
  };
  struct Parts {
    std::byte *diff, *src, *weights, *term, *converted, *scratch, *reorder, *bias;
  };

  static Tensor bytes(std::byte* data, std::size_t count) {
    return count == 0 ? Tensor() : Tensor(TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::u8), data);
  }
  static void add(const Tensor& from, const Tensor& to) {
    kokkos::add(static_cast<const float*>(from.raw()), static_cast<Index>(to.bytes() / sizeof(float)),
                static_cast<float*>(to.raw()));
  }

  /// Cuts into tiles whose part of the convolution's gradient stays in the caches, with as few different shapes as
  /// possible.
  void cut(std::size_t target) {
    const Index batch = d_.src.shape[0], extent = (verb_ == Verb::backward_data ? conv_.src : conv_.dst).shape[2];
    const std::size_t plane_bytes =
        static_cast<std::size_t>(conv_.dst.elements() / (batch * conv_.dst.shape[2])) * size_of(d_.compute);
    const auto planes = std::max<Index>(1, static_cast<Index>(target / plane_bytes));
    if (planes >= extent) {
      const Index samples = std::min(batch, planes / extent);
      for (Index n = 0; n < batch; n += samples) add_tile(n, std::min(samples, batch - n), 0, extent);
      return;
    }
    for (Index n = 0; n < batch; ++n)
      for (Index p = 0; p < extent; p += planes) add_tile(n, 1, p, std::min(planes, extent - p));
  }
  void add_tile(Index sample, Index samples, Index begin, Index count) {
    Tile t = tile_of(conv_, verb_, begin, count);
    t.first_sample = sample, t.samples = samples;
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) { return k.tiles[0].same_shape(t); });
    if (kind == kinds_.end()) kind = kinds_.insert(kind, kind_of(t));
    kind->tiles.push_back(t);
  }
  Kind kind_of(const Tile& t) const {
    Kind k;
    k.conv = conv_;
    k.conv.params.pad_begin[0] = t.pad_begin;
    k.conv.params.pad_end[0] = t.pad_end;
    const auto shrink = [&](TensorDesc& d, Index planes) {
      d.shape[0] = t.samples, d.shape[2] = planes;
      d.layout = Layout::channels_last(d.shape);
    };
    shrink(k.conv.src, t.src_planes);
    shrink(k.conv.dst, t.dst_planes);
    k.diff_src = {k.conv.src.shape, DType::f32, k.conv.src.layout};
    k.diff_dst = {k.conv.dst.shape, d_.compute, k.conv.dst.layout};
    return k;
  }
  /// The reason why there is no primitive for these tiles; empty: there is one.
  std::string make_kind(Kind& k, Context& context) const {
    auto made = context.make_by_first(k.conv);
    if (!made.primitive) return made.unsupported_reason;
    k.op = std::move(made.primitive);
    const bool data = verb_ == Verb::backward_data;
    if (!(k.op->layout(verb_, data ? Role::diff_src : Role::src) == k.conv.src.layout) ||
        !(k.op->layout(verb_, Role::diff_dst) == k.conv.dst.layout))
      return "the kernels for tiles need other layouts than channels-last";
    k.own_weights = {d_.weights.shape, data ? d_.compute : DType::f32,
                     k.op->layout(verb_, data ? Role::weights : Role::diff_weights)};
    if (k.own_weights == d_.weights) return "";
    auto reorder =
        context.make_by_first(data ? ReorderDesc{d_.weights, k.own_weights} : ReorderDesc{k.own_weights, d_.weights});
    k.reorder = std::move(reorder.primitive);
    return reorder.unsupported_reason;
  }

  Parts take(MemoryParts& parts) const {
    const bool data = verb_ == Verb::backward_data;
    std::size_t diff = 0, src = 0, weights = 0, term = 0, scratch = 0, reorder = 0;
    const auto raise = [](std::size_t& most, std::size_t bytes) { most = std::max(most, bytes); };
    for (const Kind& k : kinds_) {
      raise(diff, k.diff_dst.bytes());
      if (!data && d_.compute != DType::f32) raise(src, k.conv.src.bytes());
      if (k.reorder) raise(weights, k.own_weights.bytes());
      if (!data && k.tiles.size() > 1) raise(term, k.own_weights.bytes());
      raise(scratch, k.op->scratch_bytes(verb_));
      if (k.reorder) raise(reorder, k.reorder->scratch_bytes(Verb::forward));
    }
    const std::size_t converted = !data && kinds_.size() > 1 ? d_.weights.bytes() : 0,
                      bias = bias_ ? bias_->scratch_bytes(verb_) : 0;
    const auto next = [&](std::size_t count) { return parts.take_bytes(count); };
    return {next(diff),      next(src),     next(weights), next(term),
            next(converted), next(scratch), next(reorder), next(bias)};
  }

  void unpool(const Kind& k, const Tile& t, const Tensor& diff, const Tensor& argmax, std::byte* to) const {
    kokkos::unpool(d_.pool.kernel, diff, argmax.raw(), t.first_sample, t.first_dst, k.diff_dst, to);
  }

  /// The tile's planes of src or of the gradient of src.
  Tensor part_of_src(const Tensor& whole, const Tile& t, const TensorDesc& desc) const {
    const Index plane = d_.src.elements() / (d_.src.shape[0] * d_.src.shape[2]);
    const Index first = (t.first_sample * d_.src.shape[2] + t.first_src) * plane;
    return Tensor(desc, static_cast<float*>(whole.raw()) + first);
  }

  /// `part` with the dtype of `wanted`: `part` itself, or a converted copy in `memory`.
  static Tensor rounded(const Tensor& part, const TensorDesc& wanted, std::byte* memory) {
    if (wanted.dtype == DType::f32) return part;
    kokkos::round(static_cast<const float*>(part.raw()), part.elements(), wanted.dtype, memory);
    return Tensor(wanted, memory);
  }
  /// The reason why there is no gradient of the bias; empty: there is one.
  std::string make_bias(Context& context) {
    auto bias = context.make_by_first(BiasGradientDesc{d_.dst});
    bias_ = std::move(bias.primitive);
    return bias.unsupported_reason;
  }

  ConvMaxPoolDesc d_;
  Verb verb_;
  ConvDesc conv_;                       ///< the whole convolution
  std::unique_ptr<BiasGradient> bias_;  ///< null: no gradient of the bias is needed
  std::string name_, unsupported_;
  std::vector<Kind> kinds_;
};

std::string unfit_for_unpooled_planes(const ConvMaxPoolDesc& d) {
  if (auto why = kokkos::unfit_for_argmax(d); !why.empty()) return why;
  const int rank = d.src.shape.rank();
  if (rank != 4 && rank != 5) return "two or three spatial dims are needed";
  if (d.conv.pad_begin[0] >= d.conv.kernel[0] || d.conv.pad_end[0] >= d.conv.kernel[0])
    return "the padding is larger than the kernel reaches";
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"dst", &d.dst}})
    if (t->dtype != DType::f32 || !t->layout.is_channels_last(t->shape) || !t->layout.is_dense(t->shape))
      return fmt::format("{} is not channels-last f32", name);
  if (d.src.elements() == 0 || d.dst.elements() == 0) return "there are no elements";
  return "";
}

}  // namespace

Expected<ConvMaxPoolBackward> make_dense_conv_max_pool(const ConvMaxPoolDesc& desc, Verb verb, Context& context,
                                                       std::size_t tile_bytes) {
  KEELSON_EXPECT(verb != Verb::forward);
  ConvMaxPoolDesc d = desc;
  for (TensorDesc* t : {&d.src, &d.weights, &d.dst})
    if (t->layout.is_any()) t->layout = Layout::channels_last(t->shape);
  if (auto why = unfit_for_unpooled_planes(d); !why.empty()) return why;
  auto made = std::make_unique<DenseConvMaxPool>(d, verb, context, tile_bytes);
  if (!made->unsupported().empty()) return made->unsupported();
  return std::unique_ptr<ConvMaxPoolBackward>(std::move(made));
}

}  // namespace keelson::composed
