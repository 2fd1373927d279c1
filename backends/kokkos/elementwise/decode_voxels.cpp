#include "backends/kokkos/elementwise/decode_voxels.hpp"

#include <algorithm>
#include <limits>

#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// An item writes one voxel of dst, so that neighbours write neighbouring addresses, `width` channels at once. `Number`
/// counts voxels: 32 bits if this is enough, since a 64-bit division takes longer than the rest. Traffic: codes read
/// once, dst written once, the table read from the caches.
template <class T, class Number, int width>
struct DecodeVoxel {
  VoxelCodes from;
  VoxelStrides to;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    auto rest = static_cast<Number>(item);
    const auto w = static_cast<Index>(rest % static_cast<Number>(from.extent[2]));
    rest /= static_cast<Number>(from.extent[2]);
    const auto h = static_cast<Index>(rest % static_cast<Number>(from.extent[1]));
    rest /= static_cast<Number>(from.extent[1]);
    const auto d = static_cast<Index>(rest % static_cast<Number>(from.extent[0]));
    const auto n = static_cast<Index>(rest / static_cast<Number>(from.extent[0]));
    const VoxelSample sample = from.samples[n];
    const Index voxels = from.extent[0] * from.extent[1] * from.extent[2];
    const Index voxel = n * voxels + sample.origin + d * sample.step[0] + h * sample.step[1] + w * sample.step[2];
    const std::uint16_t* code = from.codes + (sample.present ? voxel : 0) * from.stored_channels;
    T* at = dst + n * to.n + d * to.spatial[0] + h * to.spatial[1] + w * to.spatial[2];
    for (Index first = 0; first < to.channels; first += width) {
      float v[width];
      for (int l = 0; l < width; ++l) {
        const bool real = sample.present && first + l < from.channel_count;
        v[l] = real ? from.table[code[from.channels[first + l]]] / sample.divisor : 0.0f;
      }
      store(at + first * to.c, v);
    }
  }
};

template <class T, int width>
void decode(const VoxelCodes& from, const VoxelStrides& to, T* dst) {
  constexpr const char* label = "keelson::decode_voxels";
  const Index items = from.batch * from.extent[0] * from.extent[1] * from.extent[2];
  if (items <= Index{std::numeric_limits<std::uint32_t>::max()})
    launch(label, items, DecodeVoxel<T, std::uint32_t, width>{from, to, dst});
  else
    launch(label, items, DecodeVoxel<T, std::uint64_t, width>{from, to, dst});
}

class KokkosDecodeVoxels : public DecodeVoxels {
 public:
  explicit KokkosDecodeVoxels(const DecodeVoxelsDesc& d) : d_(d) {}
  Layout layout(Verb, Role r) const override {
    if (r == Role::src) return d_.src.layout;
    return r == Role::dst ? d_.dst.layout : Layout::plain(Shape{1});
  }
  std::string name(Verb) const override { return "table"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(d_.src.bytes() + d_.dst.bytes())}; }
  void forward(const Forward<ops::Tensors>& args) override {
    decode_voxels(voxel_codes(args), args.dst.raw(), d_.dst.dtype, VoxelStrides(d_.dst));
  }

 private:
  DecodeVoxelsDesc d_;
};

}  // namespace

VoxelCodes voxel_codes(const DecodeVoxels::Forward<ops::Tensors>& args) {
  const Shape& s = args.src.shape();
  return {args.src.data<std::uint16_t>(),
          args.table.data<float>(),
          args.channels.data<std::int32_t>(),
          static_cast<const VoxelSample*>(args.samples.raw()),
          s[1],
          args.channels.elements(),
          s[0],
          {s[2], s[3], s[4]}};
}

VoxelStrides::VoxelStrides(const TensorDesc& d) : channels(d.shape[1]) {
  const Shape& s = d.layout.strides();
  n = s[0], c = s[1];
  for (int i = 0; i < 3; ++i) spatial[i] = s[2 + i];
}

VoxelStrides::VoxelStrides(const VoxelCodes& from, std::int64_t count) : channels(count) {
  Index step = count;
  for (int i = 2; i >= 0; --i) {
    spatial[i] = step;
    step *= from.extent[i];
  }
  n = step;
}

void decode_voxels(const VoxelCodes& from, void* dst, DType type, const VoxelStrides& to) {
  with_type(type, [&]<class T>(T) {
    auto* values = static_cast<T*>(dst);
    const auto fits = [&](int width) {
      bool whole = to.c == 1 && to.channels % width == 0 && to.n % width == 0;
      for (Index s : to.spatial) whole = whole && s % width == 0;
      return whole && aligned(dst, std::min<std::size_t>(16, sizeof(T) * static_cast<std::size_t>(width)));
    };
    if (fits(8)) return decode<T, 8>(from, to, values);
    if (fits(4)) return decode<T, 4>(from, to, values);
    decode<T, 1>(from, to, values);
  });
}

std::string unfit_for_voxels(const DecodeVoxelsDesc& d) {
  const Shape &s = d.src.shape, &t = d.dst.shape;
  if (s.rank() != 5 || t.rank() != 5) return fmt::format("src {} and dst {}, not volumes", to_string(s), to_string(t));
  for (int i : {0, 2, 3, 4})
    if (s[i] != t[i]) return fmt::format("src {} and dst {} differ in more than channels", to_string(s), to_string(t));
  if (d.src.dtype != DType::u16) return fmt::format("src is {}, not u16", to_string(d.src.dtype));
  if (!d.src.layout.is_channels_last(s)) return "src is " + d.src.layout.describe(s) + ", not channels-last";
  if (!is_value_type(d.dst.dtype)) return fmt::format("dst is {}, not f32, bf16 or f16", to_string(d.dst.dtype));
  return "";
}

Expected<DecodeVoxels> make(const DecodeVoxelsDesc& desc) {
  DecodeVoxelsDesc d = desc;
  if (auto why = unfit_for_voxels(d); !why.empty()) return why;
  d.dst.layout = chosen(d.dst, Layout::channels_last(d.dst.shape));
  if (!d.dst.layout.is_strided()) return "dst has the layout " + d.dst.layout.to_string() + " of another backend";
  return std::unique_ptr<DecodeVoxels>(std::make_unique<KokkosDecodeVoxels>(d));
}

}  // namespace keelson::kokkos
