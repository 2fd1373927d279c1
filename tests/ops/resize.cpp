#include "engine/ops/resize.hpp"

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::ResizeGrid;

struct ResizeCase {
  std::string name, about;
  Shape src;
  std::int64_t rows, columns;
  ResizeGrid grid = ResizeGrid::asymmetric;
  DType type = DType::f32;
};

std::vector<ResizeCase> resize_cases() {
  std::vector<ResizeCase> cases;
  const std::pair<ResizeGrid, const char*> grids[] = {
      {ResizeGrid::asymmetric, "asymmetric"}, {ResizeGrid::half_pixel, "half"}, {ResizeGrid::align_corners, "corners"}};
  for (const auto& [grid, name] : grids) {
    const auto add = [&](const char* what, const char* about, const Shape& src, std::int64_t rows, std::int64_t columns,
                         DType type = DType::f32) {
      cases.push_back({fmt::format("{}_{}", name, what), about, src, rows, columns, grid, type});
    };
    add("twice", "whole packs of channels", {2, 32, 4, 6}, 8, 12);
    add("odd", "extents without a common factor", {1, 5, 7, 3}, 11, 8);
    add("constant", "one element", {2, 21, 1, 1}, 9, 6);
    add("smaller", "some elements are not read", {2, 3, 9, 13}, 4, 5);
    add("to_one", "one element is left", {1, 4, 5, 3}, 1, 1);
    add("same", "", {1, 3, 4, 5}, 4, 5);
    add("row", "one row", {1, 2, 1, 9}, 3, 17);
    add("bf16", "", {1, 19, 5, 4}, 10, 12, DType::bf16);
    add("f16", "", {1, 16, 5, 4}, 10, 12, DType::f16);
  }
  cases.push_back({"logits", "SC18's bilinear decoder", {1, 3, 24, 36}, 96, 144});
  return cases;
}

class ResizeTest : public CaseTest<ResizeCase> {
 protected:
  void check_both(const Layout& layout, const std::string& what) {
    const auto op = make(ops::ResizeDesc{{c().src, c().type, layout}, c().rows, c().columns, c().grid});
    if (!op) return;
    const auto& d = op->description();
    const Array x = rounded(oracle::random_uniform(c().src, "x", -3, 3), c().type);
    const Array dy = rounded(oracle::random_uniform(d.dst_desc().shape, "dy"), c().type);
    const Layout at = d.src_desc().layout, to = d.dst_desc().layout;
    const Tensor src = put(ctx(), x, at, c().type), dst = destination(ctx(), dy.shape, to, c().type),
                 diff_dst = put(ctx(), dy, to, c().type), diff_src = destination(ctx(), x.shape, at, c().type);
    run_forward(what, *op, {src, dst});
    check(dst, oracle::resize_forward(x, c().rows, c().columns, c().grid), what);
    run_backward_data(what, *op, {diff_dst, diff_src, scratch(ctx(), op->scratch_bytes(ops::Verb::backward_data))});
    check(diff_src, oracle::resize_backward(dy, c().src, c().grid), what + " diff_src");
  }
};

TEST_P(ResizeTest, MatchesOracleBothWays) {
  check_both(Layout::channels_last(c().src), c().name + " channels-last");
  check_both(Layout::plain(c().src), c().name + " plain");
  check_both(Layout::any(), c().name + " any");
}

/// Parts of the result from the rows that they read. The gradients of these rows add up to that of the whole.
TEST_P(ResizeTest, PartsAreThoseOfTheWhole) {
  if (c().rows < 2 || c().type != DType::f32) return;
  const ops::ResizeDesc whole{{c().src, c().type, Layout::any()}, c().rows, c().columns, c().grid};
  const Array x = oracle::random_uniform(c().src, "x", -3, 3),
              dy = oracle::random_uniform(whole.dst_desc().shape, "dy");
  const Array y = oracle::resize_forward(x, c().rows, c().columns, c().grid);
  const std::int64_t in = c().src[2], out = c().rows;
  const auto rows_of = [](const Array& a, const keelson::Rows& rows) {
    std::vector<Shape> shapes(3, a.shape);
    shapes[0][2] = rows.begin, shapes[1][2] = rows.size(), shapes[2][2] = a.shape[2] - rows.end;
    return oracle::concat_backward(a, shapes, 2)[1];
  };
  Array diff(c().src);
  for (const keelson::Rows rows : {keelson::Rows{0, out / 2}, keelson::Rows{out / 2, out}}) {
    const keelson::Rows reads = ops::resized_rows(in, out, c().grid, rows);
    Shape src = c().src;
    src[2] = reads.size();
    const auto op = make(ops::ResizeDesc{
        {src, c().type, Layout::any()}, rows.size(), c().columns, c().grid, {in, reads.begin}, {out, rows.begin}});
    if (!op) return;
    const auto& d = op->description();
    const Tensor to = destination(ctx(), d.dst_desc().shape, d.dst_desc().layout),
                 diff_src = destination(ctx(), src, d.src_desc().layout);
    op->forward({put(ctx(), rows_of(x, reads), d.src_desc().layout), to});
    check(to, rows_of(y, rows), c().name);
    op->backward_data({put(ctx(), rows_of(dy, rows), d.dst_desc().layout), diff_src,
                       scratch(ctx(), op->scratch_bytes(ops::Verb::backward_data))});
    const Array part = get(ctx(), diff_src);
    const std::int64_t plane = src[3], images = src[0] * src[1];
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t i = 0; i < reads.size() * plane; ++i)
        diff[image * in * plane + reads.begin * plane + i] += part[image * reads.size() * plane + i];
  }
  EXPECT_TRUE(close(diff, oracle::resize_backward(dy, c().src, c().grid), c().name));
}

TEST_P(ResizeTest, NanComesOut) {
  const auto op = make(ops::ResizeDesc{{c().src, c().type, Layout::any()}, c().rows, c().columns, c().grid});
  if (!op) return;
  const auto& d = op->description();
  const Tensor src = put(ctx(), Array(c().src, nan), d.src_desc().layout, c().type);
  const Tensor dst = destination(ctx(), d.dst_desc().shape, d.dst_desc().layout, c().type);
  op->forward({src, dst});
  for (const double v : get(ctx(), dst).data) ASSERT_TRUE(std::isnan(v));
}

INSTANTIATE_TEST_SUITE_P(Resize, ResizeTest, ::testing::ValuesIn(on_every_context(resize_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
