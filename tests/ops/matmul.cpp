#include "engine/ops/matmul.hpp"

#include <limits>

#include "backends/kokkos/matmul/packed_products.hpp"
#include "backends/kokkos/matmul/skinny_gemm.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

/// How a matrix lies in memory.
enum class Rows {
  together,
  transposed,
  apart,  ///< with a gap that belongs to somebody else, as those of one time step in a sequence
};

struct MatMulCase {
  std::string name, about;
  std::int64_t rows, columns, depth;
  Rows src = Rows::together, weights = Rows::together, dst = Rows::together;
  int uses = 1;
};

std::vector<MatMulCase> matmul_cases() {
  const auto t = Rows::transposed, apart = Rows::apart, plain = Rows::together;
  return {
      {"one_element", "everything is 1", 1, 1, 1},
      {"odd", "", 3, 5, 37},
      {"one_row", "a vector-matrix product", 1, 33, 129},
      {"one_row_often", "", 1, 33, 129, plain, plain, plain, 20},
      {"one_column", "", 7, 1, 19},
      {"one_deep", "an outer product", 7, 9, 1},
      {"blocks", "multiples of 16", 16, 64, 32},
      {"blocks_often", "the weights pay to be rearranged", 16, 64, 32, plain, plain, plain, 100},
      {"src_transposed", "gradient of the weights", 13, 21, 70, t},
      {"weights_transposed", "", 13, 21, 70, plain, t},
      {"both_transposed", "", 13, 21, 70, t, t},
      {"dst_transposed", "", 13, 21, 17, plain, plain, t},
      {"step", "of an LSTM: rows of src lie apart", 5, 44, 11, apart, t, plain, 7},
      {"step_of_one", "the same for one sample", 1, 44, 11, apart, t, plain, 7},
      {"step_back", "", 5, 11, 44, apart, plain, plain, 7},
      {"often_transposed", "packed panels", 20, 800, 200, apart, t, plain, 20},
      {"many_rows_often", "more rows and depth than a block has", 29, 70, 1100, apart, t, plain, 35},
      {"most_rows_often", "rows in several wide tiles", 61, 70, 600, apart, t, plain, 35},
      {"all_apart", "", 6, 18, 23, apart, apart, apart, 2},
      {"apart_often", "weights with gaps, packed", 40, 37, 23, apart, apart, apart, 50},
      {"sum_of_rows", "ones times a matrix", 1, 37, 300, plain, apart},
      {"deep", "a reduction in parts", 4, 6, 5000},
      {"wide", "", 2, 1003, 30},
      {"tall", "", 700, 3, 5},
      {"packed", "several blocks, and parts of panels", 173, 421, 601},
      {"packed_blocks", "whole panels", 64, 96, 192},
      {"packed_src_transposed", "", 90, 131, 203, t},
      {"packed_weights_transposed", "", 90, 131, 203, plain, t},
      {"packed_both_transposed", "", 131, 90, 203, t, t},
      {"packed_dst_transposed", "", 131, 90, 203, plain, plain, t},
      {"packed_apart", "", 101, 110, 120, apart, apart, apart},
      {"packed_tall", "the weights are packed first", 1501, 37, 70},
      {"packed_tall_src_transposed", "", 1501, 64, 70, t},
  };
}

/// A matrix in memory that has more to it where its rows lie apart.
struct Matrix {
  Tensor memory, view;
};

class MatMulTest : public CaseTest<MatMulCase> {
 protected:
  static Layout layout_of(Rows rows, const Shape& s) {
    if (rows == Rows::together) return Layout::plain(s);
    return Layout::strided(s, rows == Rows::transposed ? Shape{1, s[0]} : Shape{3 * s[1] + 1, 1});
  }
  ops::MatMulDesc describe() const {
    const Shape src{c().rows, c().depth}, weights{c().depth, c().columns}, dst{c().rows, c().columns};
    return {{src, DType::f32, layout_of(c().src, src)},
            {weights, DType::f32, layout_of(c().weights, weights)},
            {dst, DType::f32, layout_of(c().dst, dst)},
            DType::f32,
            c().uses};
  }

  /// In memory whose gaps hold NaN: nobody may read them, and they must stay.
  Matrix place(const TensorDesc& d, const Array& values) {
    const Shape flat{d.shape[0] * (3 * d.shape[1] + 1)};
    Array all(flat, std::numeric_limits<double>::quiet_NaN());
    const auto strides = strides_of(d);
    for (std::int64_t i = 0; i < values.elements(); ++i) all[index(d.shape, strides, i)] = values[i];
    const Tensor memory = put(ctx(), all, Layout::plain(flat));
    return {memory, Tensor(d, memory.raw())};
  }
  /// Of extents 1, too, which a layout forgets.
  static Shape strides_of(const TensorDesc& d) { return d.layout.strides(); }
  static std::int64_t index(const Shape& s, const Shape& strides, std::int64_t i) {
    return (s[0] > 1 ? i / s[1] * strides[0] : 0) + (s[1] > 1 ? i % s[1] * strides[1] : 0);
  }

  static Array product(const Array& a, const Array& b) {
    const std::int64_t depth = a.shape[1], columns = b.shape[1];
    Array c(Shape{a.shape[0], columns});
    for (std::int64_t i = 0; i < a.shape[0]; ++i)
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t j = 0; j < columns; ++j) c[i * columns + j] += a[i * depth + k] * b[k * columns + j];
    return c;
  }

  void check_product(ops::MatMul& op, const ops::MatMulDesc& d, const std::vector<Array>& sources, const Array& w) {
    const auto weights = place(d.weights, w);
    const auto packed = scratch(ctx(), op.packed_bytes());
    const auto pack = [&] { op.pack(weights.view, packed.raw()); };
    if (packed)
      run(c().name + " pack", {packed}, pack);
    else
      pack();
    const auto extra = scratch(ctx(), op.scratch_bytes(Verb::forward));
    // One packing serves several sources.
    for (const Array& x : sources) {
      const auto src = place(d.src, x), dst = place(d.dst, Array(d.dst.shape, 3e33));
      run(c().name, {dst.memory}, [&] { op.forward(src.view, weights.view, packed.raw(), dst.view, extra.raw()); });
      const auto want = place(d.dst, product(x, w));
      EXPECT_TRUE(close(get(ctx(), dst.memory), get(ctx(), want.memory), c().name + ": " + c().about));
    }
  }
};

TEST_P(MatMulTest, MatchesOracle) {
  const auto d = describe();
  const auto op = make(d);
  if (!op) return;
  const Array w = oracle::random_uniform(d.weights.shape, "weights", -0.5, 0.5);
  Array x = oracle::random_uniform(d.src.shape, "src");
  for (std::int64_t i = 0; i < x.elements(); i += 3) x[i] = 0;
  check_product(*op, d, {x, oracle::random_uniform(d.src.shape, "another src")}, w);
  const double flops = 2.0 * static_cast<double>(c().rows * c().columns * c().depth);
  EXPECT_EQ(ops::matmul_flops(d), flops);
  EXPECT_EQ(op->cost(Verb::forward).flops, flops);
  EXPECT_EQ(op->layout(Verb::forward, Role::src), d.src.layout);
  EXPECT_EQ(op->layout(Verb::forward, Role::weights), d.weights.layout);
  EXPECT_EQ(op->layout(Verb::forward, Role::dst), d.dst.layout);
}

TEST_P(MatMulTest, OfFewRowsMatchesOracle) {
  const auto d = describe();
  const auto made = kokkos::make_skinny_gemm(d);
  const bool wanted = c().uses > 1 && c().rows <= 128 && ctx().device().has_small_caches();
  EXPECT_EQ(made.primitive != nullptr, wanted) << made.unsupported_reason;
  if (!made.primitive) return;
  const Array w = oracle::random_uniform(d.weights.shape, "weights", -0.5, 0.5);
  check_product(*made.primitive, d,
                {oracle::random_uniform(d.src.shape, "src"), oracle::random_uniform(d.src.shape, "another src")}, w);
  Array x = oracle::random_uniform(d.src.shape, "src");
  x[x.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
  check_product(*made.primitive, d, {x}, w);
}

TEST_P(MatMulTest, OfPackedPanelsMatchesOracle) {
  const auto d = describe();
  const auto made = kokkos::make_packed_matmul(d, Verb::forward);
  const bool wanted = c().name.starts_with("packed") && ctx().device().has_small_caches();
  EXPECT_EQ(made.primitive != nullptr, wanted) << made.unsupported_reason;
  if (!made.primitive) return;
  EXPECT_TRUE(made.primitive->name(Verb::forward).starts_with("packed_gemm")) << made.primitive->name(Verb::forward);
  const Array w = oracle::random_uniform(d.weights.shape, "weights", -0.5, 0.5);
  Array x = oracle::random_uniform(d.src.shape, "src");
  check_product(*made.primitive, d, {x}, w);
  x[x.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
  check_product(*made.primitive, d, {x}, w);
}

TEST_P(MatMulTest, NanReachesExactlyItsRowAndColumn) {
  const auto d = describe();
  const auto op = make(d);
  if (!op) return;
  Array x = oracle::random_uniform(d.src.shape, "src"), w = oracle::random_uniform(d.weights.shape, "weights");
  x[x.elements() / 2] = w[w.elements() - 1] = std::numeric_limits<double>::quiet_NaN();
  check_product(*op, d, {x}, w);
}

TEST_P(MatMulTest, DeclinesShapesThatDoNotFit) {
  auto d = describe();
  const Shape wrong{c().depth + 1, c().columns};
  d.weights = TensorDesc::plain(wrong);
  EXPECT_EQ(ctx().try_make(d), nullptr);
}

INSTANTIATE_TEST_SUITE_P(MatMul, MatMulTest, ::testing::ValuesIn(on_every_context(matmul_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
