#include "engine/ops/kfac.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace keelson::ops {

DiagonalBlocks DiagonalBlocks::of(std::int64_t rows, std::int64_t most) {
  const auto parts = [rows](std::int64_t size) { return (rows + size - 1) / size; };
  const std::int64_t size = most > 0 ? parts(parts(most)) : rows;
  return {.rows = rows, .size = size, .count = parts(size)};
}

std::int64_t PatchesDesc::positions() const {
  if (window.kernel.empty()) return 1;
  ConvParams one_filter = window;
  one_filter.groups = 1;
  const Shape dst = conv_dst_shape(src.shape, one_filter, 1);
  return dst.elements() / src.shape[0];
}

std::int64_t PatchesDesc::columns() const {
  std::int64_t elements = src.shape[1];
  for (const auto k : window.kernel) elements *= k;
  return elements + (ones ? 1 : 0);
}

bool PatchesDesc::is_src() const {
  const auto all = [](const Shape& s, std::int64_t value) {
    return std::ranges::all_of(s, [value](std::int64_t x) { return x == value; });
  };
  const bool whole = all(window.kernel, 1) && all(window.stride, 1) && all(window.pad_begin, 0) &&
                     all(window.pad_end, 0) && chosen() == positions();
  return whole && !ones && src.dtype == DType::f32 &&
         src.layout == (window.kernel.empty() ? Layout::plain(src.shape) : Layout::channels_last(src.shape));
}

DiagonalBlocks RunningFactorsDesc::sums_of(DiagonalBlocks a_blocks, bool bias) {
  if (!bias) ++a_blocks.rows;
  return a_blocks;
}

std::vector<FactorInversesDesc::Matrix> FactorInversesDesc::all_matrices() const {
  std::vector<Matrix> all;
  for (std::int64_t f = 0; f < std::ssize(blocks); ++f)
    for (std::int64_t k = 0; k < blocks[static_cast<std::size_t>(f)].count; ++k) all.push_back({f, k});
  return all;
}

std::vector<TensorDesc> FactorInversesDesc::factors() const {
  std::vector<TensorDesc> all;
  for (const DiagonalBlocks& b : blocks) all.push_back(b.whole());
  return all;
}

std::vector<TensorDesc> FactorInversesDesc::inverses() const {
  std::vector<TensorDesc> all;
  for (const DiagonalBlocks& b : blocks) all.push_back(inverse(b, eigen));
  return all;
}

namespace {

std::string blocks_as_text(const DiagonalBlocks& b) {
  return b.count == 1 ? fmt::format("{} rows", b.rows) : fmt::format("{} rows in blocks of {}", b.rows, b.size);
}

}  // namespace

std::string describe(const PatchesDesc& d) {
  return fmt::format("patches, src {}, kernel {}, {} of {} positions", to_string(d.src), to_string(d.window.kernel),
                     d.chosen(), d.positions());
}

std::string describe(const PackedTriangleDesc& d) { return fmt::format("packed triangle of {} rows", d.rows); }

std::string describe(const RunningFactorsDesc& d) {
  return fmt::format("running factors of {} and {}, decay {}", blocks_as_text(d.a_blocks), blocks_as_text(d.g_blocks),
                     d.decay);
}

std::string describe(const FactorInversesDesc& d) {
  std::int64_t largest = 0;
  for (const DiagonalBlocks& b : d.blocks) largest = std::max(largest, b.size);
  return fmt::format("{} of {} blocks of {} factors, the largest of {} rows", d.eigen ? "eigenvectors" : "inverses",
                     d.matrices.size(), d.blocks.size(), largest);
}

std::string describe(const EigenQuotientDesc& d) {
  return fmt::format("quotient by eigenvalues, {}, {} columns, damping {}", blocks_as_text(d.rows), d.columns,
                     d.damping);
}

std::string describe(const InnerProductDesc& d) { return fmt::format("inner product, src {}", to_string(d.src)); }

std::string describe(const KlClipDesc& d) {
  return fmt::format("kl clip {}, direction {}", d.clip, to_string(d.direction));
}

}  // namespace keelson::ops
