#include "engine/ops/kfac.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "engine/optim/kfac_products.hpp"
#include "tests/ops/op_test.hpp"
#include "tests/oracle/kfac.hpp"

/// The ops of K-FAC, each against its formula. Whole steps: tests/plan/kfac.cpp.
namespace keelson::testing {
namespace {

using ops::DiagonalBlocks;

/// The upper triangles of the blocks of a symmetric matrix, row after row.
Array packed_triangles(const Array& m, const DiagonalBlocks& blocks) {
  const std::int64_t n = m.shape[0];
  Array packed(blocks.packed().shape);
  std::int64_t next = 0;
  for (std::int64_t k = 0; k < blocks.count; ++k) {
    const std::int64_t end = blocks.first(k) + blocks.rows_of(k);
    for (std::int64_t i = blocks.first(k); i < end; ++i)
      for (std::int64_t j = i; j < end; ++j) packed[next++] = m[i * n + j];
  }
  EXPECT_EQ(next, packed.elements());
  return packed;
}

struct WindowCase {
  std::string name, about;
  Shape src;
  ops::ConvParams window = {};
  LayoutChoice layout = LayoutChoice::plain;
  DType type = DType::f32;
  std::int64_t samples = 2;
  bool ones = true;
  std::size_t tile_bytes = std::size_t{4} << 20;
  std::int64_t block_size = 0;
};

ops::ConvParams window(const Shape& kernel, std::int64_t stride = 1, std::int64_t dilation = 1, std::int64_t begin = 0,
                       std::int64_t end = 0) {
  const int rank = kernel.rank();
  return {.kernel = kernel,
          .stride = Shape::filled(rank, stride),
          .dilation = Shape::filled(rank, dilation),
          .pad_begin = Shape::filled(rank, begin),
          .pad_end = Shape::filled(rank, end)};
}

std::vector<WindowCase> window_cases() {
  using enum LayoutChoice;
  return {{"rows", "of a dense layer", {6, 5}, {}, plain},
          {"rows_of_samples", "three rows of each of two samples", {6, 5}},
          {"rows_bf16", "16-bit values", {6, 5}, {}, plain, DType::bf16},
          {"one", "a number", {1, 1}, {}, plain, DType::f32, 1},
          {"gradient", "without the 1", {6, 5}, {}, plain, DType::f32, 2, false},
          {"line", "one spatial dim with a stride", {2, 3, 11}, window({3}, 2), plain},
          {"line_last", "channels last", {2, 3, 11}, window({3}, 2, 1, 1, 0), channels_last},
          {"image", "padding", {2, 3, 7, 6}, window({3, 2}, 1, 1, 1, 1), plain},
          {"image_last", "uneven padding", {2, 4, 7, 6}, window({3, 3}, 1, 1, 0, 2), channels_last},
          {"dilated", "a stride and a dilation", {4, 2, 9, 9}, window({3, 3}, 2, 2, 2, 2), channels_last},
          {"volume", "three spatial dims", {2, 2, 4, 5, 3}, window({2, 3, 3}, 1, 1, 1, 1), channels_last},
          {"volume_plain", "the same, plain", {2, 2, 4, 5, 3}, window({2, 3, 3}, 1, 1, 1, 1), plain},
          {"volume_f16", "16-bit values", {2, 2, 4, 5, 3}, window({3, 3, 3}, 1, 1, 1, 1), channels_last, DType::f16},
          {"tiles",
           "several tiles, the last one smaller",
           {4, 3, 15, 13},
           window({3, 3}, 1, 1, 1, 1),
           channels_last,
           DType::f32,
           2,
           true,
           1},
          {"blocks",
           "several blocks of columns",
           {3, 20, 9, 9},
           window({3, 3}, 1, 1, 1, 1),
           channels_last,
           DType::f32,
           3,
           true,
           1},
          {"gradient_image", "in place", {2, 5, 4, 3}, window({1, 1}), channels_last, DType::f32, 2, false},
          {"gradient_blocks", "in place", {2, 5, 9, 31}, window({1, 1}), channels_last, DType::f32, 2, false, 1, 2},
          {"gradient_f16", "16-bit values", {2, 5, 4, 3}, window({1, 1}), channels_last, DType::f16, 2, false, 1, 2},
          {"diagonal", "diagonal blocks", {6, 11}, {}, plain, DType::f32, 2, true, std::size_t{4} << 20, 5},
          {"diagonal_image",
           "diagonal blocks of several parts, in several tiles",
           {2, 40, 17, 15},
           window({3, 3}, 1, 1, 1, 1),
           channels_last,
           DType::f32,
           2,
           true,
           1,
           150}};
}

class PatchGramTest : public CaseTest<WindowCase> {
 protected:
  /// Every second sample counts.
  Array weights() const {
    Array w({c().samples}, 1);
    for (std::int64_t i = 1; i < c().samples; i += 2) w[i] = 0;
    return w;
  }
};

TEST_P(PatchGramTest, MatchesTheOracle) {
  const auto layout = layout_of(ctx(), c().layout, c().src);
  const Layout chosen = layout ? *layout : Layout::plain(c().src);
  const ops::PatchesDesc patches{c().window, {c().src, c().type, chosen}, c().samples, 0, c().ones};
  const Array x = rounded(oracle::random_uniform(c().src, "x"), c().type);
  const Tensor src = put(ctx(), x, chosen, c().type), step = put_step_params(ctx(), {});
  const Array rows = oracle::patch_rows(x, c().window, c().ones);
  EXPECT_EQ(patches.rows(), rows.shape[0]);
  EXPECT_EQ(patches.columns(), rows.shape[1]);
  // With blocks of the columns but for the 1, the 1 belongs to the last one.
  for (const bool bias : {true, false})
    for (const bool weighted : {false, true}) {
      if (!bias && !c().ones) continue;
      const auto blocks = ops::RunningFactorsDesc::sums_of(
          DiagonalBlocks::of(patches.columns() - (bias ? 0 : 1), c().block_size), bias);
      const PatchGramDesc d{patches, blocks, weighted};
      PatchGram op(ctx(), d, c().tile_bytes);
      op.set_description(d);
      Array counted = rows;
      const Array w = weighted ? weights() : Array({c().samples}, 1);
      for (std::int64_t i = 0; i < rows.elements(); ++i) counted[i] *= w[i / (rows.elements() / c().samples)];
      const Tensor weight = weighted ? put(ctx(), w, Layout::plain(w.shape)) : Tensor();
      const Tensor sums = destination(ctx(), d.sums().shape, d.sums().layout);
      allow_calls(4000);
      run_forward(c().name, op, {step, src, weight, sums, scratch(ctx(), op.scratch_bytes(ops::Verb::forward))});
      check(sums, packed_triangles(oracle::products_of_rows(counted), blocks),
            fmt::format("{}{}{}", c().name, bias ? "" : ", no bias", weighted ? ", some samples" : ""));
    }
}

std::vector<OnContext<WindowCase>> on_networks(const std::vector<WindowCase>& cases) {
  std::vector<OnContext<WindowCase>> all;
  for (const auto& c : cases)
    for (const auto& name : network_contexts()) all.push_back({c, name});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kfac, PatchGramTest, ::testing::ValuesIn(on_networks(window_cases())), CaseName());

struct KfacCase {
  std::string name, about;
};

class KfacOpsTest : public CaseTest<KfacCase> {
 protected:
  Tensor plain(const Array& a) { return put(ctx(), a, Layout::plain(a.shape)); }
  /// Results of FactorInverses for A and G, in blocks of at most `most` rows; empty where the context has no such op.
  std::vector<Tensor> inverses(const Array& a, const Array& g, double damping, bool eigen, std::int64_t most = 0,
                               std::optional<std::vector<ops::FactorInversesDesc::Matrix>> matrices = {}) {
    ops::FactorInversesDesc d{{DiagonalBlocks::of(a.shape[0], most), DiagonalBlocks::of(g.shape[0], most)},
                              {},
                              static_cast<float>(damping),
                              eigen};
    d.matrices = matrices ? *matrices : d.all_matrices();
    const auto op = make(d);
    if (!op) return {};
    std::vector<Tensor> results;
    for (const TensorDesc& r : d.inverses()) results.push_back(destination(ctx(), r.shape, r.layout));
    run_forward("inverses", *op,
                {{plain(oracle::diagonal_blocks(a, most)), plain(oracle::diagonal_blocks(g, most))},
                 results,
                 scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
    return results;
  }
  Array direction(const Array& gradient, const Array& a, const Array& g, double damping, bool eigen,
                  std::int64_t most = 0) {
    const auto inverse = inverses(a, g, damping, eigen, most);
    if (inverse.empty()) return {};
    KfacDirection op(ctx(), {DiagonalBlocks::of(gradient.shape[0], most), DiagonalBlocks::of(gradient.shape[1], most),
                             eigen, static_cast<float>(damping)});
    const Tensor dst = destination(ctx(), gradient.shape, Layout::plain(gradient.shape));
    allow_calls(400);
    run_forward("direction", op,
                {plain(gradient), inverse[0], inverse[1], dst, scratch(ctx(), op.scratch_bytes(ops::Verb::forward))});
    return get(ctx(), dst);
  }
  bool is_whole() const {
    const auto names = network_contexts();
    return std::ranges::find(names, GetParam().context) != names.end();
  }
};

/// A position of each part, at random, and the same for all numbers of ranks.
TEST_P(KfacOpsTest, TakesPositionsOfAllParts) {
  const ops::ConvParams one = window({1, 1});
  const Shape shape{2, 1, 8, 8};
  Array x(shape);
  for (std::int64_t i = 0; i < x.elements(); ++i) x[i] = static_cast<double>(i % 64);
  const auto op = make(ops::PatchesDesc{one, TensorDesc::plain(shape), 2, 10, true});
  if (!op) return;
  EXPECT_EQ(op->description().rows(), 20);
  const auto rows_of = [&](const ops::StepParams& step) {
    const Tensor dst = destination(ctx(), {20, 2}, Layout::plain({20, 2}));
    op->gather(put_step_params(ctx(), step), plain(x), Tensor(), 0, 0, dst);
    return get(ctx(), dst);
  };
  std::set<double> seen;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Array rows = rows_of({.seed = 3, .step = step});
    for (std::int64_t k = 0; k < 20; ++k) {
      const std::int64_t part = k % 10, first = part * 64 / 10, end = (part + 1) * 64 / 10;
      EXPECT_GE(rows[2 * k], static_cast<double>(first));
      EXPECT_LT(rows[2 * k], static_cast<double>(end));
      EXPECT_EQ(rows[2 * k + 1], 1);
      seen.insert(rows[2 * k]);
    }
  }
  EXPECT_EQ(seen.size(), 64u) << "every position in its turn";
  const Array both = rows_of({.seed = 3, .step = 4}), second = rows_of({.seed = 3, .step = 4, .sample_offset = 1});
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(second[i], both[20 + i]) << "another rank's first sample";
}

TEST_P(KfacOpsTest, BlocksAreOfAboutTheSameSize) {
  for (const std::int64_t rows : {1, 2, 7, 36, 109, 6913})
    for (const std::int64_t most : {0, 1, 5, 35, 36, 256}) {
      const DiagonalBlocks b = DiagonalBlocks::of(rows, most);
      const Array want = rows < 200 ? oracle::diagonal_blocks(Array({rows, rows}), most) : Array();
      if (!want.empty()) {
        EXPECT_EQ(b.whole().shape, want.shape) << rows << " rows, " << most;
      }
      EXPECT_EQ(b.first(b.count - 1) + b.rows_of(b.count - 1), rows);
      EXPECT_GT(b.rows_of(b.count - 1), 0);
      if (most > 0) {
        EXPECT_LE(b.size, most);
      }
    }
}

TEST_P(KfacOpsTest, FactorsAreRunningMeans) {
  struct Sizes {
    std::int64_t inputs, outputs, most;
  };
  for (const Sizes& size : {Sizes{3, 2, 0}, {3, 3, 2}, {75, 40, 0}, {75, 40, 38}})
    for (const bool bias : {false, true}) {
      const std::int64_t n = size.inputs + (bias ? 1 : 0), all = size.inputs + 1, m = size.outputs;
      const ops::RunningFactorsDesc d{.a_blocks = DiagonalBlocks::of(n, size.most),
                                      .g_blocks = DiagonalBlocks::of(m, size.most),
                                      .bias = bias,
                                      .positions = 6,
                                      .chosen = 4,
                                      .decay = 0.75f};
      const auto op = make(d);
      if (!op) return;
      Array a({n, n}), g({m, m});
      const Tensor held_a = plain(Array(d.a().shape)), held_g = plain(Array(d.g().shape));
      for (int step = 0; step < 5; ++step) {
        // Step 2 is skipped and step 3 has no samples.
        const bool changes = step != 2 && step != 3;
        Array rows = oracle::random_uniform({8, all}, fmt::format("rows{}", step));
        for (std::int64_t i = 0; i < 8; ++i) rows[all * i + all - 1] = 1;  // 2 samples with 4 of 6 positions
        const Array gradients = oracle::random_uniform({12, m}, fmt::format("gradients{}", step));
        Array a_sums = oracle::products_of_rows(rows), g_sums = oracle::products_of_rows(gradients);
        for (double& v : g_sums.data) v *= 8.0 * 8.0 * 0.25 * 0.25;  // loss scale 8, 4 samples in all
        if (step == 2) g_sums.data[0] = std::numeric_limits<double>::infinity();
        if (step == 3) a_sums = Array({all, all}), g_sums = Array({m, m});
        op->forward({put_step_params(ctx(), {.inverse_samples = 0.25f}),
                     plain(packed_triangles(a_sums, ops::RunningFactorsDesc::sums_of(d.a_blocks, bias))),
                     plain(packed_triangles(g_sums, d.g_blocks)), held_a, held_g,
                     put_loss_scale(ctx(), {.unscale = 0.125f, .skip = step == 2 ? 1 : 0}),
                     scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
        if (changes) {
          const double keep = step == 0 ? 0 : 0.75;
          const Array products = oracle::products_of_rows(gradients);
          for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j)
              a[i * n + j] = keep * a[i * n + j] + (1 - keep) * a_sums[i * all + j] * 6 / 4 / 2;
          for (std::int64_t i = 0; i < m * m; ++i) g[i] = keep * g[i] + (1 - keep) * products[i] / (2 * 6);
        }
        check(held_a, oracle::diagonal_blocks(a, size.most), fmt::format("A after step {}", step));
        check(held_g, oracle::diagonal_blocks(g, size.most), fmt::format("G after step {}", step));
      }
    }
}

/// Four samples of one layer, in f64 by an independent program.
TEST_P(KfacOpsTest, DirectionsMatchReferences) {
  if (!is_whole()) return;
  Array x({4, 4}), y({4, 2});
  for (std::int64_t s = 0; s < 4; ++s) {
    for (std::int64_t i = 0; i < 3; ++i) x[4 * s + i] = std::sin(static_cast<double>(1 + 3 * s + i));
    x[4 * s + 3] = 1;
    for (std::int64_t j = 0; j < 2; ++j) y[2 * s + j] = std::cos(static_cast<double>(2 * s + j));
  }
  const auto mean = [](Array m) {
    for (double& v : m.data) v /= 4;
    return m;
  };
  const Array a = mean(oracle::products_of_rows(x)), g = mean(oracle::products_of_rows(y)),
              gradient = mean(oracle::matrix_product(oracle::transposed(y), x));
  const Array factored{{2, 4},
                       {0.477007491645, -0.456731767085, -0.970553945483, 0.153295523141, 0.547939593417,
                        0.393932711392, -0.122254088772, 0.0501940813602}},
      exact{{2, 4},
            {2.01587377145, -1.0864071338, -3.18985033046, -0.00930153582981, 1.6161081629, 0.39854622498,
             -1.1854372741, -0.0892050403384}};
  for (const bool eigen : {false, true}) {
    const Array& want = eigen ? exact : factored;
    const Array formula =
        eigen ? oracle::exact_direction(gradient, a, g, 0.01) : oracle::factored_direction(gradient, a, g, 0.01);
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_NEAR(formula[i], want[i], 1e-9);
    const Array got = direction(gradient, a, g, 0.01, eigen);
    if (got.empty()) return;
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * 3.2) << (eigen ? "eigen" : "factored");
    if (eigen) continue;
    const ops::KlClipDesc d{TensorDesc::plain({2, 4}), 0, 0.001f};
    const auto clip = make(d);
    const auto product = make(ops::InnerProductDesc{d.direction});
    const Tensor products = put_f64(ctx(), Array(Shape{1})), dst = destination(ctx(), {2, 4}, d.direction.layout);
    product->forward(
        {plain(got), plain(gradient), products, scratch(ctx(), product->scratch_bytes(ops::Verb::forward))});
    run_forward("clip", *clip,
                {put_step_params(ctx(), {.learning_rate = 0.1f}), plain(got), plain(gradient), products, Tensor(), dst,
                 Tensor()});
    const Array clipped = get(ctx(), dst);
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_NEAR(clipped[i], 0.468583624090 * want[i], 1e-5);
  }
}

TEST_P(KfacOpsTest, DirectionsMatchTheOracle) {
  if (!is_whole()) return;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 14}, {17, 5}}) {
    const auto factor = [](std::int64_t n, const char* name) {
      Array m = oracle::products_of_rows(oracle::random_uniform({2 * n + 3, n}, name));
      for (double& v : m.data) v = static_cast<float>(v / static_cast<double>(n));
      return m;
    };
    const Array a = factor(columns, "a"), g = factor(rows, "g"),
                gradient = oracle::random_uniform({rows, columns}, "gradient");
    for (const double damping : {0.003, 1.0})
      for (const bool eigen : {false, true})
        for (const std::int64_t most : {0, 4}) {
          const Array got = direction(gradient, a, g, static_cast<float>(damping), eigen, most);
          if (got.empty()) return;
          const double used = static_cast<double>(static_cast<float>(damping));
          const Array of_a = oracle::block_diagonal(a, most), of_g = oracle::block_diagonal(g, most);
          const Array want = eigen ? oracle::exact_direction(gradient, of_a, of_g, used)
                                   : oracle::factored_direction(gradient, of_a, of_g, used);
          EXPECT_TRUE(close(
              got, want, fmt::format("{} x {}, damping {}, eigen {}, blocks {}", rows, columns, damping, eigen, most),
              {2e-5, 1e-5}));
        }
  }
}

/// With G = I and without damping, a step of one layer with the squared error of all samples is that of Newton's
/// method: it ends at the least squares.
TEST_P(KfacOpsTest, OneStepReachesTheLeastSquares) {
  if (!is_whole()) return;
  constexpr std::int64_t samples = 30, inputs = 5, outputs = 3;
  Array x = oracle::random_uniform({samples, inputs}, "x");
  for (std::int64_t i = 0; i < samples; ++i) x[(i + 1) * inputs - 1] = 1;
  const Array y = oracle::random_uniform({samples, outputs}, "y"), w = oracle::random_uniform({outputs, inputs}, "w");
  const auto gradient_at = [&](const Array& at) {
    Array d = oracle::matrix_product(x, oracle::transposed(at));
    for (std::int64_t i = 0; i < d.elements(); ++i) d[i] = (d[i] - y[i]) / samples;
    return oracle::matrix_product(oracle::transposed(d), x);
  };
  Array a = oracle::products_of_rows(x), g({outputs, outputs});
  for (double& v : a.data) v /= samples;
  for (std::int64_t i = 0; i < outputs; ++i) g[i * (outputs + 1)] = 1;
  for (const bool eigen : {false, true}) {
    const Array step = direction(gradient_at(w), a, g, 0, eigen);
    if (step.empty()) return;
    Array moved = w;
    for (std::int64_t i = 0; i < w.elements(); ++i) moved[i] -= step[i];
    for (const double v : gradient_at(moved).data) EXPECT_NEAR(v, 0, 1e-6);
  }
}

TEST_P(KfacOpsTest, InversesOfOtherRanksAndOfEmptyFactorsAreZero) {
  const Array a = oracle::products_of_rows(oracle::random_uniform({9, 4}, "a")),
              g = oracle::products_of_rows(oracle::random_uniform({9, 3}, "g"));
  for (const bool eigen : {false, true}) {
    const auto mine = inverses(a, g, 0.1, eigen, 0, {{{1, 0}}});
    if (mine.empty()) return;
    for (const double v : get(ctx(), mine[0]).data) EXPECT_EQ(v, 0);
    EXPECT_NE(get(ctx(), mine[1])[0], 0);
    for (const Tensor& t : inverses(Array({4, 4}), g, 0.1, eigen))
      for (const double v : get(ctx(), t).data) EXPECT_EQ(v, 0);
    Array bad = a;
    bad[4] = std::numeric_limits<double>::quiet_NaN();
    for (const double v : get(ctx(), inverses(bad, g, 0.1, eigen)[0]).data) EXPECT_TRUE(std::isnan(v));
  }
}

/// A matrix of rank 1 without damping has no inverse; its eigenvalues near zero count as 2^-24 of the largest.
TEST_P(KfacOpsTest, SingularFactorsHaveFiniteInverses) {
  const Array a = oracle::products_of_rows(oracle::random_uniform({1, 6}, "a"));
  for (const bool eigen : {false, true}) {
    const auto results = inverses(a, a, 0, eigen);
    for (const Tensor& t : results) EXPECT_TRUE(all_finite(get(ctx(), t)));
  }
}

/// Inputs that are always zero, in a block of their own.
TEST_P(KfacOpsTest, BlocksOfZerosHaveNoDirection) {
  if (!is_whole()) return;
  Array rows = oracle::random_uniform({9, 5}, "a"), gradient = oracle::random_uniform({3, 5}, "gradient");
  for (std::int64_t i = 0; i < 9; ++i) rows[5 * i + 3] = rows[5 * i + 4] = 0;
  for (std::int64_t i = 0; i < 3; ++i) gradient[5 * i + 3] = gradient[5 * i + 4] = 0;
  const Array a = oracle::products_of_rows(rows), g = oracle::products_of_rows(oracle::random_uniform({9, 3}, "g"));
  for (const bool eigen : {false, true})
    for (const double damping : {0.0, 0.1}) {
      const Array got = direction(gradient, a, g, damping, eigen, 3);
      if (got.empty()) return;
      EXPECT_TRUE(all_finite(got)) << eigen << damping;
      EXPECT_NE(got[0], 0);
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(got[5 * i + 3], 0);
        EXPECT_EQ(got[5 * i + 4], 0);
      }
    }
}

TEST_P(KfacOpsTest, ClipsAllLayersByOneNumber) {
  const Shape shape{2, 3};
  const Array direction = oracle::random_uniform(shape, "d"), gradient = oracle::random_uniform(shape, "g");
  for (const double size : {0.0, 1e-4, 10.0})
    for (const float clip_norm : {0.0f, 2.0f}) {
      const Layout apart = size == 10 ? Layout::strided(shape, {5, 1}) : Layout::plain(shape);
      const ops::KlClipDesc d{{shape, DType::f32, apart}, 1, 0.001f, clip_norm};
      const auto op = make(d);
      if (!op) return;
      const Tensor dst = destination(ctx(), shape, d.dst().layout);
      const double f = 0.5 * (clip_norm > 0 ? 2.0 / (0.5 * 8) : 1);  // the norm of the scaled gradients is 8
      run_forward("clip", *op,
                  {put_step_params(ctx(), {.learning_rate = 0.1f}), put(ctx(), direction, apart),
                   put(ctx(), gradient, apart), put_f64(ctx(), {Shape{3}, {size, size, 2 * size}}),
                   clip_norm > 0 ? put_f64(ctx(), {Shape{2}, {60, 4}}) : Tensor(), dst,
                   put_loss_scale(ctx(), {.unscale = 0.5f})});
      const double lr = static_cast<double>(0.1f), sum = lr * lr * f * f * 4 * size;
      const double nu = sum > 0.001 ? std::sqrt(static_cast<double>(0.001f) / sum) : 1;
      Array want = size == 0 ? gradient : direction;
      for (double& v : want.data) v *= nu;
      check(dst, want, fmt::format("products {}, clip norm {}", size, clip_norm));
    }
}

TEST_P(KfacOpsTest, InnerProductsAreInF64) {
  for (const std::int64_t n : {1, 1000, 20011}) {
    const auto op = make(ops::InnerProductDesc{TensorDesc::plain({n}), 1, 0.25});
    if (!op) return;
    const Array a = oracle::random_uniform({n}, "a"), b = oracle::random_uniform({n}, "b");
    const Tensor sums = put_f64(ctx(), {Shape{3}, {7, 8, 9}});
    op->forward({plain(a), plain(b), sums, scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
    const Array got = get_f64(ctx(), sums);
    EXPECT_EQ(got[0], 7);
    EXPECT_NEAR(got[1], 0.25 * oracle::dot(a, b), 1e-10);
    EXPECT_EQ(got[2], 9);
  }
}

INSTANTIATE_TEST_SUITE_P(Kfac, KfacOpsTest, ::testing::ValuesIn(on_every_context<KfacCase>({{"ops", "of a step"}})),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
