#include <limits>

#include "engine/ops/combine.hpp"
#include "tests/ops/op_test.hpp"

/// Copies and conversions of runs: with rests behind whole packs, of rows with gaps between them, from and to addresses
/// where no pack may begin. What is next to dst stays as it is.
namespace keelson::testing {
namespace {

struct CopyCase {
  std::string name, about;
  Shape shape;
  std::int64_t src_step, dst_step;    ///< of the dim before the last
  std::int64_t src_first, dst_first;  ///< of the first element, in the memory that it lies in
};

const std::vector<CopyCase> copy_cases{
    {"one", "one element", {1}, 0, 0, 0, 0},
    {"short", "less than a pack", {7}, 0, 0, 0, 0},
    {"pack", "whole packs", {64}, 0, 0, 0, 0},
    {"rest", "a rest", {1003}, 0, 0, 0, 0},
    {"src_misaligned", "src begins within a pack", {1003}, 0, 0, 3, 0},
    {"dst_misaligned", "dst begins within a pack", {1003}, 0, 0, 0, 1},
    {"both_misaligned", "both do, alike", {256}, 0, 0, 4, 4},
    {"join", "aligned rows into wider ones", {9, 32}, 32, 80, 0, 16},
    {"split", "rows with a rest out of wider ones", {9, 21}, 48, 32, 16, 0},
    {"odd_rows", "rows that begin anywhere", {9, 32}, 33, 32, 0, 0},
    {"odd_dst_rows", "rows that go anywhere", {9, 32}, 32, 37, 0, 0},
    {"narrow_rows", "rows shorter than a pack", {50, 3}, 16, 16, 0, 0},
    {"transpose", "other dims are the fastest", {17, 19}, 1, 19, 0, 0},
};

class CopyTest : public CaseTest<CopyCase> {
 protected:
  Layout layout_with(std::int64_t step) const {
    if (c().shape.rank() == 1) return Layout::plain(c().shape);
    return Layout::strided(c().shape, {step, step == 1 ? c().shape[0] : 1});
  }
  /// Place of element i in memory.
  std::int64_t place(std::int64_t i, const Layout& layout, std::int64_t first) const {
    const auto& s = layout.strides();
    const auto width = c().shape[c().shape.rank() - 1];
    return first + (c().shape.rank() == 1 ? i : i / width * s[0] + i % width * s[1]);
  }
  static Shape memory_for(const Shape& shape, const Layout& layout, std::int64_t first) {
    std::int64_t last = first;
    for (int i = 0; i < shape.rank(); ++i) last += (shape[i] - 1) * layout.strides()[i];
    return {last + 20};
  }
  Tensor at(const Tensor& memory, const Layout& layout, std::int64_t first) const {
    auto* bytes = static_cast<char*>(memory.raw()) + first * static_cast<std::int64_t>(size_of(memory.dtype()));
    return {{c().shape, memory.dtype(), layout}, bytes};
  }
};

TEST_P(CopyTest, EveryTypeToEveryOther) {
  const Layout from = layout_with(c().src_step), to = layout_with(c().dst_step);
  const Shape src_shape = memory_for(c().shape, from, c().src_first),
              dst_shape = memory_for(c().shape, to, c().dst_first);
  constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
  for (const auto src_type : types)
    for (const auto dst_type : types) {
      const auto what = fmt::format("{}: {} to {}", c().name, to_string(src_type), to_string(dst_type));
      const auto op = make(ops::ReorderDesc{{c().shape, src_type, from}, {c().shape, dst_type, to}});
      if (!op) continue;
      Array x = oracle::random_uniform(src_shape, "src", -100, 100);
      const auto elements = c().shape.elements();
      x[place(elements / 2, from, c().src_first)] = std::numeric_limits<double>::quiet_NaN();
      x[place(elements - 1, from, c().src_first)] = -std::numeric_limits<double>::infinity();
      x = rounded(x, src_type);
      const auto src = put(ctx(), x, Layout::plain(src_shape), src_type);
      const auto dst = destination(ctx(), dst_shape, Layout::plain(dst_shape), dst_type);
      Array want = get(ctx(), dst);
      for (std::int64_t i = 0; i < elements; ++i) want[place(i, to, c().dst_first)] = x[place(i, from, c().src_first)];
      op->forward({at(src, from, c().src_first), at(dst, to, c().dst_first),
                   scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
      check(dst, rounded(want, dst_type), what, exact);
    }
}

INSTANTIATE_TEST_SUITE_P(Copy, CopyTest, ::testing::ValuesIn(on_every_context(copy_cases)), CaseName());

}  // namespace
}  // namespace keelson::testing
