#include "engine/ops/sampled_softmax.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

constexpr double ignored_place = -77;  // no op writes this

struct SampledCase {
  std::string name, about;
  Array target;
  std::int64_t classes, samples;
};

std::vector<SampledCase> sampled_cases() {
  return {
      {"one", "one row, one sample", Array(Shape{1}, 1.0), 2, 1},
      {"rows", "rows that do not count", Array({2, 4}, {3, 1, -1, 3, 0, 1, 6, -1}), 7, 5},
      {"blocks", "several blocks of candidates", oracle::random_integers({5, 7}, "target", 0, 99), 100, 700},
      {"many", "more classes than a float has steps", oracle::random_integers({33}, "target", 0, 1999999999),
       2000000000, 4001},
  };
}

class SampledSoftmaxTest : public CaseTest<SampledCase> {
 protected:
  struct Candidates {
    Array ids, shift, places;
  };

  std::int64_t rows() const { return c().target.elements(); }
  ops::SampleClassesDesc describe() const {
    return {TensorDesc::plain(c().target.shape, DType::s32), c().classes, c().samples, 17};
  }
  Candidates draw(ops::SampleClasses& op, const Array& target, std::uint64_t step) {
    const std::int64_t count = c().samples + rows();
    const Tensor ids = put_classes(ctx(), Array(Shape{count}, ignored_place)),
                 places = put_classes(ctx(), Array(target.shape, ignored_place)),
                 shift = destination(ctx(), {c().samples}, Layout::plain({c().samples}));
    ops::StepParams step_params;
    step_params.seed = 5;
    step_params.step = step;
    run_forward("draw", op, {put_step_params(ctx(), step_params), put_classes(ctx(), target), ids, shift, places});
    return {get_s32(ctx(), ids), get(ctx(), shift), get_s32(ctx(), places)};
  }
  double probability(double id) const {
    return std::log((id + 2) / (id + 1)) / std::log(static_cast<double>(c().classes) + 1);
  }
};

TEST_P(SampledSoftmaxTest, DrawsClassesAndAppendsTargets) {
  const auto op = make(describe());
  if (!op) return;
  const Candidates got = draw(*op, c().target, 3);
  Array shift(got.shift.shape), places(c().target.shape);
  for (std::int64_t i = 0; i < c().samples; ++i) {
    ASSERT_GE(got.ids[i], 0) << i;
    ASSERT_LT(got.ids[i], static_cast<double>(c().classes)) << i;
  }
  for (std::int64_t r = 0; r < rows(); ++r) {
    const double target = c().target[r];
    EXPECT_EQ(got.ids[c().samples + r], std::max(target, 0.0)) << r;
    places[r] = target < 0 ? -1 : static_cast<double>(c().samples + r);
  }
  for (std::int64_t i = 0; i < shift.elements(); ++i)
    shift[i] = -std::log(static_cast<double>(c().samples) * probability(got.ids[i]));
  EXPECT_TRUE(close(got.places, places, "places", exact));
  EXPECT_TRUE(close(got.shift, shift, "shift", Tolerance{1e-6, 1e-6}));
  // The classes depend on the step alone.
  EXPECT_EQ(draw(*op, Array(c().target.shape, 1.0), 3).ids.data[0], got.ids[0]);
  if (c().samples > 100) {
    EXPECT_NE(draw(*op, c().target, 4).ids.data, got.ids.data);
  }
}

/// The frequency of the classes in eight equal parts of the logarithm's range.
TEST_P(SampledSoftmaxTest, DrawsByZipfsLaw) {
  const auto op = make(describe());
  if (!op || c().samples < 500) return;
  constexpr int steps = 20, parts = 8;
  double count[parts] = {}, want[parts] = {};
  const auto part_of = [&](double id) {
    return static_cast<int>(parts * std::log(id + 1.5) / std::log(static_cast<double>(c().classes) + 1));
  };
  for (int step = 0; step < steps; ++step) {
    const Array ids = draw(*op, c().target, static_cast<std::uint64_t>(step)).ids;
    for (std::int64_t i = 0; i < c().samples; ++i) ++count[part_of(ids[i])];
  }
  double begin = 0;
  for (int p = 0; p < parts; ++p) {
    // Class c belongs to the part where log(c + 1.5) lies: c from ceil(b - 1.5) on.
    const double end = std::ceil(std::pow(static_cast<double>(c().classes) + 1, (p + 1.0) / parts) - 1.5);
    want[p] = (std::log(end + 1) - std::log(begin + 1)) / std::log(static_cast<double>(c().classes) + 1);
    begin = end;
  }
  const double all = steps * static_cast<double>(c().samples);
  for (int p = 0; p < parts; ++p)
    EXPECT_NEAR(count[p] / all, want[p], 5 * std::sqrt(want[p] / all) + 1e-9) << "part " << p;
}

TEST_P(SampledSoftmaxTest, ShiftsLogitsAndLeavesOutTargets) {
  const Shape shape{rows(), c().samples + rows()};
  const auto op = make(ops::SampledLogitsDesc{TensorDesc::plain(shape)});
  if (!op) return;
  Array ids = oracle::random_integers({shape[1]}, "ids", 0, std::min<std::int64_t>(c().classes - 1, 20));
  const Array shift = oracle::random_uniform({c().samples}, "shift"), x = oracle::random_uniform(shape, "logits");
  const Tensor logits = put(ctx(), x, Layout::plain(shape));
  op->forward({put_classes(ctx(), ids), put(ctx(), shift, Layout::plain(shift.shape)), logits});
  Array want = x;
  for (std::int64_t r = 0; r < shape[0]; ++r)
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      const bool left_out = j < c().samples ? ids[j] == ids[c().samples + r] : j != c().samples + r;
      double& v = want[r * shape[1] + j];
      v = left_out ? -std::numeric_limits<double>::infinity() : j < c().samples ? v + shift[j] : v;
    }
  EXPECT_TRUE(close(get(ctx(), logits), want, c().name, Tolerance{1e-6, 1e-6}));
}

INSTANTIATE_TEST_SUITE_P(SampledSoftmax, SampledSoftmaxTest, ::testing::ValuesIn(on_every_context(sampled_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
