#include "backends/cuda/padded_channels.hpp"

#include "backends/kokkos/channels.hpp"
#include "backends/kokkos/decode_voxels.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Channels that each element of `d` has in memory.
std::int64_t channels_in_memory(const TensorDesc& d) {
  const auto padded = PaddedChannels::channels_of(d.layout);
  return padded > 0 ? padded : d.shape[1];
}

bool has_channels_last(const TensorDesc& d) {
  return PaddedChannels::channels_of(d.layout) > 0 || (d.layout.is_strided() && d.layout.is_channels_last(d.shape));
}

class PaddingReorder : public Reorder {
 public:
  explicit PaddingReorder(const ReorderDesc& d) : d_(d) {}
  Layout layout(Verb, Role r) const override { return r == Role::src ? d_.src.layout : d_.dst.layout; }
  std::string name(Verb) const override { return "padding"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(d_.src.bytes() + d_.dst.bytes())}; }
  void forward(const Forward<ops::Tensors>& args) override {
    kokkos::copy_channels(args.src.raw(), d_.src.dtype, channels_in_memory(d_.src), args.dst.raw(), d_.dst.dtype,
                          channels_in_memory(d_.dst), d_.src.elements() / d_.src.shape[1]);
  }

 private:
  ReorderDesc d_;
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

std::size_t PaddedChannels::bytes() const {
  return static_cast<std::size_t>(shape_.elements() / shape_[1] * channels_) * size_of(dtype_);
}

bool PaddedChannels::equals(const OpaqueLayout& other) const {
  const auto* o = dynamic_cast<const PaddedChannels*>(&other);
  return o && o->shape_ == shape_ && o->dtype_ == dtype_ && o->channels_ == channels_;
}

std::string PaddedChannels::to_string() const {
  return fmt::format("channels-last, {} padded to {}", shape_[1], channels_);
}

Layout PaddedChannels::layout(const Shape& shape, DType dtype, std::int64_t channels) {
  return Layout::opaque(std::make_shared<PaddedChannels>(shape, dtype, channels));
}

std::int64_t PaddedChannels::channels_of(const Layout& layout) {
  if (!layout.is_opaque()) return 0;
  const auto* padded = dynamic_cast<const PaddedChannels*>(&layout.opaque());
  return padded ? padded->channels() : 0;
}

Expected<Reorder> make_padding_reorder(const ReorderDesc& d) {
  const auto is_value = [](DType t) { return t == DType::f32 || is_half(t); };
  if (PaddedChannels::channels_of(d.src.layout) == 0 && PaddedChannels::channels_of(d.dst.layout) == 0)
    return std::string("neither src nor dst has padded channels");
  if (!(d.src.shape == d.dst.shape) || !has_channels_last(d.src) || !has_channels_last(d.dst))
    return std::string("from or to padded channels only with channels last, and one shape");
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
