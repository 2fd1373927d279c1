#include <algorithm>

#include "engine/ops/update.hpp"
#include "tests/ops/op_test.hpp"

/// Steps with gradients by rows: the rows that occur move as the same rows of a whole gradient would, the others keep
/// their bits.
namespace keelson::testing {
namespace {

using ops::UpdateKind;

struct RowsCase {
  std::string name, about;
  ops::UpdateParams params;
};

std::vector<RowsCase> rows_cases() {
  const auto sgd = UpdateKind::sgd, adam = UpdateKind::adam;
  return {
      {"sgd", "", {.kind = sgd, .lr_multiplier = 3}},
      {"sgd_decay", "of the rows that occur", {.kind = sgd, .weight_decay = 0.1f}},
      {"momentum", "", {.kind = sgd, .momentum = 0.9f}},
      {"nesterov", "with decay", {.kind = sgd, .decoupled_decay = 0.1f, .momentum = 0.9f, .nesterov = true}},
      {"adam", "", {.kind = adam}},
      {"adam_decay", "both decays", {.kind = adam, .weight_decay = 0.1f, .decoupled_decay = 0.1f}},
      {"clipped", "several sums make the global norm", {.kind = sgd, .momentum = 0.9f, .clip_norm = 0.5f}},
      {"not_clipped", "the global norm is small", {.kind = adam, .clip_norm = 1e6f}},
  };
}

Array row_of(const Array& a, std::int64_t row) {
  const auto first = a.data.begin() + row * a.shape[1];
  return {Shape{a.shape[1]}, std::vector<double>(first, first + a.shape[1])};
}

void set_row(Array& a, std::int64_t row, const Array& values) {
  std::copy(values.data.begin(), values.data.end(), a.data.begin() + row * a.shape[1]);
}

class UpdateRowsTest : public CaseTest<RowsCase> {
 protected:
  Array occurring(std::uint64_t step) {
    const Array lists[] = {Array({7}, {0, 2, 9, 10, -1, -1, -1}), Array({7}, {10, 1, 0, 3, 9, 4, 8}),
                           Array({7}, {-1, 5, -1, -1, -1, -1, -1})};
    return lists[step];
  }

  /// What the rows of `now` become; `diff` has the gradient of row rows[m] in its row m.
  oracle::OptimizerState expected(oracle::OptimizerState now, const Array& rows, const Array& diff,
                                  const ops::StepParams& step_params, double squares) {
    for (std::int64_t m = 0; m < rows.elements(); ++m) {
      const auto row = static_cast<std::int64_t>(rows[m]);
      if (row < 0) continue;
      const auto moved = oracle::update({row_of(now.param, row), row_of(now.moment1, row), row_of(now.moment2, row)},
                                        row_of(diff, m), c().params, step_params, squares);
      set_row(now.param, row, moved.param);
      set_row(now.moment1, row, moved.moment1);
      set_row(now.moment2, row, moved.moment2);
    }
    return now;
  }

  void expect_untouched(const Tensor& t, const Array& before, const Array& rows, const std::string& what) {
    if (!t) return;
    const Array after = get(ctx(), t);
    for (std::int64_t row = 0; row < before.shape[0]; ++row)
      if (std::find(rows.data.begin(), rows.data.end(), static_cast<double>(row)) == rows.data.end()) {
        EXPECT_EQ(row_of(after, row).data, row_of(before, row).data) << what << ", row " << row;
      }
  }

  void check_steps(std::int64_t width) {
    const auto& p = c().params;
    const Shape shape{11, width};
    const auto plain = Layout::plain(shape);
    const auto op = make(ops::UpdateDesc{p, TensorDesc::plain(shape), 7});
    if (!op) return;
    oracle::OptimizerState want{oracle::random_uniform(shape, "w"), oracle::random_uniform(shape, "m"),
                                oracle::random_uniform(shape, "v", 0, 1)};
    const int moments = moment_count(p);
    const auto param = put(ctx(), want.param, plain),
               moment1 = moments > 0 ? put(ctx(), want.moment1, plain) : Tensor(),
               moment2 = moments > 1 ? put(ctx(), want.moment2, plain) : Tensor();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto what = fmt::format("{} ({}), width {}, step {}", c().name, c().about, width, step);
      const Array rows = occurring(step), g = oracle::random_uniform({7, width}, fmt::format("g{}", step));
      const Array sums({3}, {1.5, 0.25, 0.5 + static_cast<double>(step)});
      const auto norm = p.clip_norm > 0 ? put_f64(ctx(), sums) : Tensor();
      const ops::StepParams now{.step = step, .learning_rate = 0.05f};
      const auto step_params = put_step_params(ctx(), now), diff = put(ctx(), g, Layout::plain(g.shape)),
                 numbers = put_classes(ctx(), rows);
      const Array before = get(ctx(), param), before1 = moment1 ? get(ctx(), moment1) : Array(),
                  before2 = moment2 ? get(ctx(), moment2) : Array();
      const auto used =
          allocations_of([&] { op->forward({step_params, diff, numbers, norm, {}, param, moment1, moment2}); });
      EXPECT_LE(used.bytes, allowed_bytes()) << what;
      want = expected(std::move(want), rows, g, now, sums[0] + sums[1] + sums[2]);
      check(param, want.param, what);
      if (moment1) check(moment1, want.moment1, what + " moment1");
      if (moment2) check(moment2, want.moment2, what + " moment2");
      expect_untouched(param, before, rows, what);
      expect_untouched(moment1, before1, rows, what + " moment1");
      expect_untouched(moment2, before2, rows, what + " moment2");
    }
    // Only the rows' traffic counts: the same whatever the size of the table.
    const auto larger = make(ops::UpdateDesc{p, TensorDesc::plain({1000, width}), 7});
    EXPECT_EQ(op->cost(ops::Verb::forward).bytes, larger->cost(ops::Verb::forward).bytes);
    EXPECT_EQ(op->cost(ops::Verb::forward).bytes,
              7 * static_cast<double>(width) * sizeof(float) * (3 + 2 * (moments ? moment2 ? 2 : 1 : 0)));
  }
};

TEST_P(UpdateRowsTest, MatchesOracleAndLeavesTheOthers) {
  for (const std::int64_t width : {1, 5, 333}) check_steps(width);
}

TEST_P(UpdateRowsTest, DeclinesWhatNeedsTheWhole) {
  ops::UpdateParams larc = c().params;
  larc.larc = ops::LarcMode::clip;
  EXPECT_EQ(ctx().try_make(ops::UpdateDesc{larc, TensorDesc::plain({11, 5}), 7}), nullptr);
  ops::UpdateParams lars = c().params;
  lars.kind = UpdateKind::lars;
  EXPECT_EQ(ctx().try_make(ops::UpdateDesc{lars, TensorDesc::plain({11, 5}), 7}), nullptr);
  const Shape cube{11, 5, 2};
  EXPECT_EQ(ctx().try_make(ops::UpdateDesc{c().params, TensorDesc::plain(cube), 7}), nullptr);
  const Shape matrix{11, 5};
  const TensorDesc by_columns{matrix, DType::f32, Layout::strided(matrix, {1, 11})};
  EXPECT_EQ(ctx().try_make(ops::UpdateDesc{c().params, by_columns, 7}), nullptr);
}

INSTANTIATE_TEST_SUITE_P(UpdateRows, UpdateRowsTest, ::testing::ValuesIn(on_every_context(rows_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
