#include "engine/ops/decode_voxels.hpp"

#include <cstring>

#include "backends/kokkos/elementwise/decode_voxels.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::VoxelSample;

struct DecodeCase {
  std::string name, about;
  Shape src;  ///< (N, stored channels, D, H, W)
  std::vector<std::int32_t> channels;
  DType type = DType::f32;
  bool plain = false;
};

template <class T>
Tensor on_device(Context& context, const TensorDesc& desc, const std::vector<T>& values) {
  const Tensor t = context.allocate(desc, "values");
  KEELSON_EXPECT(values.size() * sizeof(T) == t.bytes());
  context.device().copy_from_host(t.raw(), values.data(), t.bytes());
  return t;
}

/// Codes over the whole range.
std::vector<std::uint16_t> some_codes(std::int64_t count) {
  std::vector<std::uint16_t> codes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i * 40503 + 17);
  return codes;
}

std::vector<float> some_table() {
  std::vector<float> table(65536);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(std::log1p(static_cast<double>(i)));
  table[65535] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

/// One as it is; one turned about an axis and divided; one mirrored in all dims; one that is not there.
std::vector<VoxelSample> some_samples(const Shape& s) {
  const auto d = static_cast<std::int32_t>(s[2]), h = static_cast<std::int32_t>(s[3]),
             w = static_cast<std::int32_t>(s[4]);
  const VoxelSample as_is{0, {h * w, w, 1}, 1, 1}, mirrored{d * h * w - 1, {-h * w, -w, -1}, 1, 1};
  VoxelSample turned{0, {h * w, w, 1}, 3, 1};
  if (h == w) turned = {w - 1, {h * w, -1, w}, 3, 1};
  return {as_is, turned, mirrored, VoxelSample{}};
}

struct Sources {
  std::vector<std::uint16_t> codes;
  std::vector<float> table;
  std::vector<VoxelSample> samples;
};

/// By the formula of the header, with `channels` of which the last ones may be beyond those that were chosen.
Array decoded(const Sources& s, const Shape& src, const std::vector<std::int32_t>& channels, std::int64_t count) {
  Array dst(Shape{src[0], count, src[2], src[3], src[4]});
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < src[0]; ++n)
    for (std::int64_t c = 0; c < count; ++c)
      for (std::int64_t d = 0; d < src[2]; ++d)
        for (std::int64_t h = 0; h < src[3]; ++h)
          for (std::int64_t w = 0; w < src[4]; ++w, ++at) {
            const VoxelSample& v = s.samples[n];
            dst[at] = 0;
            if (!v.present || c >= std::ssize(channels)) continue;
            const auto voxel = n * src[2] * src[3] * src[4] + v.origin + d * v.step[0] + h * v.step[1] + w * v.step[2];
            dst[at] = static_cast<double>(s.table[s.codes[voxel * src[1] + channels[c]]] / v.divisor);
          }
  return dst;
}

class DecodeVoxelsTest : public CaseTest<DecodeCase> {
 protected:
  Sources sources() const {
    Sources s{some_codes(c().src.elements()), some_table(), some_samples(c().src)};
    s.samples.resize(static_cast<std::size_t>(c().src[0]));
    return s;
  }
};

TEST_P(DecodeVoxelsTest, LooksUpTurnsAndDivides) {
  Shape shape = c().src;
  shape[1] = std::ssize(c().channels);
  const TensorDesc from{c().src, DType::u16, Layout::channels_last(c().src)};
  const Layout layout = c().plain ? Layout::plain(shape) : Layout::channels_last(shape);
  const ops::DecodeVoxelsDesc desc{from, {shape, c().type, layout}};
  const auto op = make(desc);
  if (!op) return;
  const Sources s = sources();
  const Array want = rounded(decoded(s, c().src, c().channels, shape[1]), c().type);
  const Tensor src = on_device(ctx(), from, s.codes), table = on_device(ctx(), desc.table_desc(), s.table),
               channels = on_device(ctx(), desc.channels_desc(), c().channels),
               samples = on_device(ctx(), desc.samples_desc(), s.samples),
               dst = destination(ctx(), shape, layout, c().type);
  run_forward(c().name, *op, {src, table, channels, samples, dst});
  check(dst, want, c().name, exact);
}

/// What a backend with padded channels uses.
TEST_P(DecodeVoxelsTest, WritesZerosToChannelsBeyond) {
  use(contexts().back());
  const Sources s = sources();
  const std::int64_t count = (std::ssize(c().channels) / 8 + 1) * 8;
  const Shape shape{c().src[0], count, c().src[2], c().src[3], c().src[4]};
  const ops::DecodeVoxelsDesc desc{{c().src, DType::u16, Layout::channels_last(c().src)},
                                   {shape, c().type, Layout::channels_last(shape)}};
  const Tensor src = on_device(ctx(), desc.src, s.codes), table = on_device(ctx(), desc.table_desc(), s.table),
               channels = on_device(ctx(), TensorDesc::plain({std::ssize(c().channels)}, DType::s32), c().channels),
               samples = on_device(ctx(), desc.samples_desc(), s.samples),
               dst = destination(ctx(), shape, desc.dst.layout, c().type);
  const auto codes = kokkos::voxel_codes({src, table, channels, samples, dst});
  kokkos::decode_voxels(codes, dst.raw(), c().type, kokkos::VoxelStrides(codes, count));
  check(dst, rounded(decoded(s, c().src, c().channels, count), c().type), c().name, exact);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DecodeVoxelsTest,
    ::testing::ValuesIn(on_every_context<DecodeCase>(
        {{"cosmoflow", "all of four channels", {4, 4, 6, 6, 6}, {0, 1, 2, 3}},
         {"bf16", "", {4, 4, 6, 6, 6}, {0, 1, 2, 3}, DType::bf16},
         {"f16", "one channel of three", {4, 3, 4, 5, 5}, {1}, DType::f16},
         {"chosen", "in another order", {3, 4, 3, 5, 7}, {3, 0}},
         {"wide", "more than a pack, no multiple", {2, 11, 3, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, DType::bf16},
         {"plain", "channels do not lie side by side", {4, 4, 4, 3, 3}, {0, 2, 1, 3}, DType::f32, true},
         {"voxel", "a single one", {1, 1, 1, 1, 1}, {0}}})),
    CaseName{});

}  // namespace
}  // namespace keelson::testing
