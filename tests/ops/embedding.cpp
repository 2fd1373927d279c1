#include "engine/ops/embedding.hpp"

#include <cmath>
#include <limits>
#include <set>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

struct EmbeddingCase {
  std::string name, about;
  Array ids;
  std::int64_t entries, width;
};

Array sequence(std::int64_t count) {
  Array a(Shape{count});
  for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<double>(count - 1 - i);
  return a;
}

std::vector<EmbeddingCase> embedding_cases() {
  constexpr double most = 2147483647;
  return {
      {"one", "everything is 1", Array(Shape{1}, 0.0), 1, 1},
      {"steps", "duplicates within and between samples", Array({2, 4}, {3, 1, 3, 3, 0, 1, 6, 3}), 7, 5},
      {"all_equal", "one row is all that occurs", Array({3, 5}, 4.0), 6, 17},
      {"distinct", "every row occurs once, from the last on", sequence(9), 9, 3},
      {"outside", "numbers that are no entries", Array({9}, {2, -1, 5, 2, 6, -7, most, 0, -most - 1}), 6, 4},
      {"none_inside", "no place counts", Array({3}, {-1, 8, -1}), 8, 2},
      {"rows", "row numbers of two ranks, each rising and then -1", Array({8}, {1, 4, 7, -1, 0, 4, -1, -1}), 9, 6},
      {"wide", "more features than a vector has lanes", oracle::random_integers({5, 7}, "id", 0, 19), 20, 131},
      {"large", "many places of few entries", oracle::random_integers({20, 35}, "id", 0, 99), 100, 33},
  };
}

/// The distinct numbers of entries, rising.
std::vector<double> distinct(const Array& ids, std::int64_t entries) {
  std::set<double> found;
  for (const double id : ids.data)
    if (id >= 0 && id < static_cast<double>(entries)) found.insert(id);
  return {found.begin(), found.end()};
}

class EmbeddingTest : public CaseTest<EmbeddingCase> {
 protected:
  Shape table() const { return {c().entries, c().width}; }
  Shape result() const { return {c().ids.elements(), c().width}; }
  ops::EmbeddingDesc describe() const {
    return {TensorDesc::plain(c().ids.shape, DType::s32), TensorDesc::plain(table())};
  }
  Tensor put_plain(const Array& a) { return put(ctx(), a, Layout::plain(a.shape)); }
};

TEST_P(EmbeddingTest, LooksUpRows) {
  const auto op = make(describe());
  if (!op) return;
  const Array w = oracle::random_uniform(table(), "weights");
  const auto ids = put_classes(ctx(), c().ids), weights = put_plain(w),
             dst = destination(ctx(), result(), Layout::plain(result()));
  run_forward("forward", *op, {ids, weights, dst});
  EXPECT_TRUE(close(get(ctx(), dst), oracle::embedding_forward(c().ids, w), c().name, exact)) << c().about;
  const double moved = 2.0 * static_cast<double>(result().elements()) * sizeof(float);
  EXPECT_EQ(op->cost(Verb::forward).bytes, moved);
  EXPECT_EQ(op->cost(Verb::backward_weights).bytes, moved);
}

TEST_P(EmbeddingTest, NanReachesExactlyItsRows) {
  const auto op = make(describe());
  if (!op) return;
  Array w = oracle::random_uniform(table(), "weights");
  for (std::int64_t e = 0; e < c().entries; e += 2) w[e * c().width] = std::numeric_limits<double>::quiet_NaN();
  const auto dst = destination(ctx(), result(), Layout::plain(result()));
  op->forward({put_classes(ctx(), c().ids), put_plain(w), dst});
  EXPECT_TRUE(close(get(ctx(), dst), oracle::embedding_forward(c().ids, w), c().name, exact));
}

TEST_P(EmbeddingTest, AddsUpGradientsByRows) {
  const auto op = make(describe());
  if (!op) return;
  for (const bool nan : {false, true}) {
    Array dy = oracle::random_uniform(result(), "diff_dst");
    if (nan) dy[dy.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
    const auto ids = put_classes(ctx(), c().ids), diff_dst = put_plain(dy),
               extra = scratch(ctx(), op->scratch_bytes(Verb::backward_weights)),
               diff_rows = destination(ctx(), result(), Layout::plain(result()));
    const auto rows = put_classes(ctx(), Array(Shape{result()[0]}, 77.0));
    run_backward_weights("backward", *op, {ids, diff_dst, rows, diff_rows, extra});

    const Array whole = oracle::embedding_backward(c().ids, dy, table());
    Array want_rows(rows.shape(), -1.0), want(result());
    const auto numbers = distinct(c().ids, c().entries);
    for (std::size_t u = 0; u < numbers.size(); ++u) {
      want_rows[static_cast<std::int64_t>(u)] = numbers[u];
      for (std::int64_t j = 0; j < c().width; ++j)
        want[static_cast<std::int64_t>(u) * c().width + j] =
            whole[static_cast<std::int64_t>(numbers[u]) * c().width + j];
    }
    EXPECT_TRUE(close(get_s32(ctx(), rows), want_rows, c().name + " rows", exact)) << c().about;
    check(diff_rows, want, c().name + " diff_rows");
  }
}

/// Sums in the order of the places, so that merging the ranks' lists gives the same bits on every rank.
TEST_P(EmbeddingTest, SumsInTheOrderOfThePlaces) {
  const auto op = make(describe());
  if (!op) return;
  const Array dy = oracle::random_uniform(result(), "diff_dst");
  const auto diff_rows = destination(ctx(), result(), Layout::plain(result()));
  const auto rows = put_classes(ctx(), Array(Shape{result()[0]}));
  op->backward_weights({put_classes(ctx(), c().ids), put_plain(dy), rows, diff_rows,
                        scratch(ctx(), op->scratch_bytes(Verb::backward_weights))});
  Array want(result());
  const auto numbers = distinct(c().ids, c().entries);
  for (std::size_t u = 0; u < numbers.size(); ++u)
    for (std::int64_t j = 0; j < c().width; ++j) {
      float sum = 0;
      for (std::int64_t m = 0; m < c().ids.elements(); ++m)
        if (c().ids[m] == numbers[u]) sum += static_cast<float>(dy[m * c().width + j]);
      want[static_cast<std::int64_t>(u) * c().width + j] = sum;
    }
  EXPECT_TRUE(close(get(ctx(), diff_rows), want, c().name, exact));
}

TEST_P(EmbeddingTest, AddsRowsIntoTheWholeGradient) {
  // The numbers as backward leaves them: each once, then -1.
  Array rows(Shape{result()[0]}, -1.0);
  const auto numbers = distinct(c().ids, c().entries);
  std::copy(numbers.begin(), numbers.end(), rows.data.begin());
  const Array g = oracle::random_uniform(result(), "diff_rows"), before = oracle::random_uniform(table(), "dst");
  for (const bool accumulate : {true, false}) {
    const auto op = make(ops::AddRowsDesc{TensorDesc::plain(result()), TensorDesc::plain(table()), accumulate});
    if (!op) return;
    const auto places = put_classes(ctx(), rows), diff_rows = put_plain(g),
               dst = accumulate ? put_plain(before) : destination(ctx(), table(), Layout::plain(table()));
    const auto add = [&] { op->forward({places, diff_rows, dst}); };
    if (accumulate)
      EXPECT_LE(allocations_of(add).bytes, allowed_bytes());
    else
      run("add rows", {dst}, add);
    Array want = accumulate ? before : Array(table());
    for (std::int64_t m = 0; m < rows.elements(); ++m)
      for (std::int64_t j = 0; j < c().width && rows[m] >= 0; ++j)
        want[static_cast<std::int64_t>(rows[m]) * c().width + j] += g[m * c().width + j];
    check(dst, want, c().name);
    const double bytes = sizeof(float) * static_cast<double>(3 * g.elements() + (accumulate ? 0 : before.elements()));
    EXPECT_EQ(op->cost(Verb::forward).bytes, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, EmbeddingTest, ::testing::ValuesIn(on_every_context(embedding_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
