#include "backends/cuda/makers.hpp"
#include "backends/cuda/padded_channels.hpp"
#include "backends/kokkos/elementwise/decode_voxels.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// The number of channels that each element of `d` has in memory.
std::int64_t channels_in_memory(const TensorDesc& d) {
  const auto padded = PaddedChannels::channels_of(d.layout);
  return padded > 0 ? padded : d.shape[1];
}

/// Between padded and dense channels-last; to or from another strided layout through a channels-last copy in scratch.
class PaddingReorder : public Reorder {
 public:
  explicit PaddingReorder(const ReorderDesc& d) : d_(d), from_(d.src), to_(d.dst) {
    for (TensorDesc* end : {&from_, &to_})
      if (PaddedChannels::channels_of(end->layout) == 0) end->layout = Layout::channels_last(end->shape);
    if (!(from_ == d.src)) before_ = kokkos::make(ReorderDesc{d.src, from_}).primitive;
    if (!(to_ == d.dst)) after_ = kokkos::make(ReorderDesc{to_, d.dst}).primitive;
  }
  Layout layout(Verb, Role r) const override { return r == Role::src ? d_.src.layout : d_.dst.layout; }
  std::string name(Verb) const override { return "padding"; }
  std::size_t scratch_bytes(Verb) const override { return before_ ? from_.bytes() : after_ ? to_.bytes() : 0; }
  Cost cost(Verb) const override { return {0, static_cast<double>(d_.src.bytes() + d_.dst.bytes())}; }
  void forward(const Forward<ops::Tensors>& args) override {
    const Tensor from = before_ ? Tensor(from_, args.scratch.raw()) : args.src;
    const Tensor to = after_ ? Tensor(to_, args.scratch.raw()) : args.dst;
    if (before_) before_->forward({.src = args.src, .dst = from, .scratch = {}});
    kokkos::copy_channels(from.raw(), from_.dtype, channels_in_memory(from_), to.raw(), to_.dtype,
                          channels_in_memory(to_), from_.elements() / from_.shape[1]);
    if (after_) after_->forward({.src = to, .dst = args.dst, .scratch = {}});
  }

 private:
  ReorderDesc d_;
  TensorDesc from_, to_;  ///< channels-last, padded or not
  std::unique_ptr<Reorder> before_, after_;
};

class PaddingDecode : public DecodeVoxels {
 public:
  explicit PaddingDecode(const DecodeVoxelsDesc& d) : d_(d) {}
  Layout layout(Verb, Role r) const override {
    if (r == Role::src) return d_.src.layout;
    return r == Role::dst ? d_.dst.layout : Layout::plain(Shape{1});
  }
  std::string name(Verb) const override { return "table, padding"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(d_.src.bytes() + d_.dst.bytes())}; }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto codes = kokkos::voxel_codes(args);
    kokkos::decode_voxels(codes, args.dst.raw(), d_.dst.dtype, kokkos::VoxelStrides(codes, channels_in_memory(d_.dst)));
  }

 private:
  DecodeVoxelsDesc d_;
};

}  // namespace

Expected<Reorder> make_padding_reorder(const ReorderDesc& d) {
  const auto is_value = [](DType t) { return t == DType::f32 || is_half(t); };
  if (PaddedChannels::channels_of(d.src.layout) == 0 && PaddedChannels::channels_of(d.dst.layout) == 0)
    return std::string("neither src nor dst has padded channels");
  const auto is_known = [](const Layout& l) { return l.is_strided() || PaddedChannels::channels_of(l) > 0; };
  if (!(d.src.shape == d.dst.shape) || !is_known(d.src.layout) || !is_known(d.dst.layout))
    return std::string("padded channels become a strided layout of the same shape, and back");
  if (!is_value(d.src.dtype) || !is_value(d.dst.dtype))
    return fmt::format("no conversion from {} to {}", to_string(d.src.dtype), to_string(d.dst.dtype));
  return std::unique_ptr<Reorder>(std::make_unique<PaddingReorder>(d));
}

Expected<DecodeVoxels> make_padding_decode(const DecodeVoxelsDesc& d) {
  if (PaddedChannels::channels_of(d.dst.layout) == 0) return std::string("dst has no padded channels");
  if (auto why = kokkos::unfit_for_voxels(d); !why.empty()) return why;
  return std::unique_ptr<DecodeVoxels>(std::make_unique<PaddingDecode>(d));
}

}  // namespace keelson::cuda
