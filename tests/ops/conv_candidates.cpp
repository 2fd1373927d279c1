#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/registry.hpp"
#include "engine/base/environment.hpp"
#include "engine/ops/candidates.hpp"
#include "engine/tune/autotuner.hpp"
#include "tests/ops/conv_cases.hpp"
#include "tests/ops/conv_runs.hpp"
#include "tests/ops/op_test.hpp"

/// All candidates for a convolution on a CPU: oneDNN's implementations with and without blocked layouts, the Kokkos
/// backend's, Winograd's, Fourier transforms.
namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct CandidatesCase : ConvCase {
  DType type = DType::f32;  ///< of src, weights and diff_dst
};

constexpr Verb all_verbs[] = {Verb::forward, Verb::backward_data, Verb::backward_weights};

/// Whether a choice, or the list of candidates in a key, has an algorithm with fewer multiplications.
bool has_fast(const std::string& text) {
  return text.find("winograd") != std::string::npos || text.find("fourier") != std::string::npos;
}
bool is_fast(const std::string& kernel) { return kernel.starts_with("winograd") || kernel.starts_with("fft"); }

bool has_onednn() {
  const auto names = backends::selected();
  return std::find(names.begin(), names.end(), "onednn") != names.end();
}

/// Measures with a context and a file of its own, then tells its autotuner what to choose.
class ConvCandidatesTest : public CaseTest<CandidatesCase> {
 protected:
  ConvCandidatesTest() : tune_(environment("KEELSON_TUNE")), cache_(environment("KEELSON_CACHE")) {}
  ~ConvCandidatesTest() override {
    ::setenv("KEELSON_TUNE", tune_.c_str(), 1);
    ::setenv("KEELSON_CACHE", cache_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    context(this->GetParam().context);  // skips where there is no device; the others' context must not measure
    ::setenv("KEELSON_TUNE", "on", 1);
    ::setenv("KEELSON_CACHE", folder_.c_str(), 1);
    own_ = backends::make_context();
    use(this->GetParam().context, *own_);
    if (!ctx().device().autotuner()) GTEST_SKIP() << "this device measures elsewhere";
    if (!has_onednn() || !backends::computes_in("onednn", c().type))
      GTEST_SKIP() << "no " << to_string(c().type) << " here";
  }

  ops::ConvDesc desc() const {
    ops::ConvDesc d;
    d.params = c().params;
    d.src = {c().src, c().type, Layout::strided(c().src, Layout::channels_last(larger()).strides())};
    d.weights = {c().weights(), c().type, Layout::any()};
    const Shape dst = ops::conv_dst_shape(c().src, c().params, c().filters);
    d.dst = {dst, DType::f32, Layout::channels_last(dst)};
    return d;
  }

  /// The autotuner takes each convolution's candidate number `number`, or the last one; the most candidates that there
  /// are.
  std::size_t adopt(std::size_t number) {
    std::size_t most = 0;
    auto choices = nlohmann::json::parse(ctx().device().autotuner()->text());
    for (auto& [key, choice] : choices.items()) {
      std::vector<std::string> names;
      std::string rest = key.substr(key.rfind(", of ") + 5);
      for (std::size_t end; (end = rest.find(" | ")) != std::string::npos; rest = rest.substr(end + 3))
        names.push_back(rest.substr(0, end));
      names.push_back(rest);
      EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << key;
      choice = names[std::min(number, names.size() - 1)];
      most = std::max(most, names.size());
    }
    ctx().device().autotuner()->adopt(choices.dump());
    return most;
  }

  /// The primitive by the candidates of that number; the most candidates that a verb has.
  std::pair<std::unique_ptr<ops::Conv>, std::size_t> make_by(std::size_t number) {
    auto op = make(desc());
    adopt(number);
    if (op) op = make(desc());  // the gradients' candidates depend on the weights' layout, so on forward's choice
    const auto most = adopt(number);
    if (op) op = make(desc());
    return {std::move(op), most};
  }

  /// check_all() for all candidates.
  void check_all_candidates() {
    std::set<std::string> checked;
    std::map<Verb, double> fewest_flops;
    for (std::size_t number = 0, most = 1; number < most; ++number) {
      const auto [op, candidates] = make_by(number);
      most = std::max(most, candidates);
      if (!op) return;
      std::string names;
      for (const Verb v : all_verbs) names += op->name(v) + "; ";
      if (!checked.insert(names).second) continue;
      SCOPED_TRACE(names);
      check_all(*op);
      for (const Verb v : all_verbs) {
        EXPECT_LE(op->relative_error(v), is_fast(op->name(v)) ? ops::most_relative_error : 1) << op->name(v);
        const ops::Cost cost = op->cost(v);
        EXPECT_LE(cost.least_flops(), cost.flops) << op->name(v);
        EXPECT_EQ(fewest_flops.try_emplace(v, cost.fewest_flops).first->second, cost.fewest_flops)
            << op->name(v) << ": the limit does not depend on the choice";
      }
    }
  }

  Shape larger() const {
    Shape s = c().src;
    s[1] += channels_behind_;
    return s;
  }

  /// The source in this layout. If that has gaps, they are NaN.
  Tensor put_source(const Array& a, const Layout& layout) {
    const DType type = c().type;
    if (channels_behind_ == 0 || layout != desc().src.layout) return put(ctx(), a, layout, type);
    const auto whole =
        std::make_shared<Tensor>(put(ctx(), Array(larger(), NAN), Layout::channels_last(larger()), type));
    const Tensor src(desc().src, whole->raw(), std::shared_ptr<void>(whole, whole->raw()));
    const Tensor dense = put(ctx(), a, Layout::channels_last(a.shape), type);
    const auto copy = make(ops::ReorderDesc{dense.desc(), src.desc()});
    copy->forward({dense, src, scratch(ctx(), copy->scratch_bytes(Verb::forward))});
    return src;
  }

  void check_all(ops::Conv& op) {
    const DType type = c().type;
    const Array src = rounded(oracle::random_uniform(c().src, "src"), type),
                weights = rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), type),
                diff_dst = rounded(
                    oracle::random_uniform(oracle::conv_shape(c().src, c().weights(), c().params), "diff_dst"), type),
                bias = c().params.bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array();
    const auto put_for = [&](Verb v, Role r, const Array& a) { return put(ctx(), a, op.layout(v, r), type); };
    const auto result = [&](Verb v, Role r, const Shape& s) { return destination(ctx(), s, op.layout(v, r)); };
    const auto extra = [&](Verb v) { return scratch(ctx(), op.scratch_bytes(v)); };
    const auto tolerance_of = [&](Verb v) {
      return is_fast(op.name(v)) ? Tolerance{1e-5, 1e-5} : tolerance(DType::f32);
    };
    const bool has_bias = c().params.bias;

    Verb v = Verb::forward;
    std::string what = fmt::format("{} {}", to_string(v), op.name(v));
    const auto dst = result(v, Role::dst, diff_dst.shape);
    run_forward(what, op,
                {put_source(src, op.layout(v, Role::src)), put_for(v, Role::weights, weights),
                 has_bias ? put(ctx(), bias, Layout::plain(bias.shape)) : Tensor(), dst, extra(v)});
    check(dst, oracle::conv_forward(src, weights, bias, c().params), what, tolerance_of(v));

    v = Verb::backward_data;
    what = fmt::format("{} {}", to_string(v), op.name(v));
    const auto diff_src = result(v, Role::diff_src, c().src);
    run_backward_data(what, op,
                      {put_for(v, Role::diff_dst, diff_dst), put_for(v, Role::weights, weights), diff_src, extra(v)});
    check(diff_src, oracle::conv_backward_data(diff_dst, weights, c().src, c().params), what, tolerance_of(v));

    v = Verb::backward_weights;
    what = fmt::format("{} {}", to_string(v), op.name(v));
    const auto diff_weights = result(v, Role::diff_weights, c().weights());
    const auto diff_bias = has_bias ? destination(ctx(), bias.shape, Layout::plain(bias.shape)) : Tensor();
    run_backward_weights(what, op,
                         {put_source(src, op.layout(v, Role::src)), put_for(v, Role::diff_dst, diff_dst), diff_weights,
                          diff_bias, extra(v)});
    check(diff_weights, oracle::conv_backward_weights(src, diff_dst, c().weights(), c().params), what, tolerance_of(v));
    if (has_bias) check(diff_bias, oracle::backward_bias(diff_dst), what);
  }

  std::int64_t channels_behind_ = 0;  ///< of a larger value, whose first channels are the source

 private:
  std::string tune_, cache_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("keelson-conv-candidates-" + std::to_string(::getpid()));
  std::unique_ptr<Context> own_;
};

TEST_P(ConvCandidatesTest, AllComputeTheSame) { check_all_candidates(); }

/// As the beginning of a concatenation has them. What lies in the gaps is NaN.
TEST_P(ConvCandidatesTest, ReadASourceWithGaps) {
  channels_behind_ = 20;
  check_all_candidates();
}

/// A candidate with a quarter of the products.
class RoundingConv : public ops::Conv {
 public:
  RoundingConv(const ops::ConvDesc& d, double error) : d_(d), error_(error) {}
  Layout layout(Verb, Role r) const override { return ops::weighted_layout(d_, r); }
  std::string name(Verb) const override { return "fast"; }
  ops::Cost cost(Verb) const override { return {ops::conv_flops(d_), 0, ops::conv_flops(d_) / 4}; }
  double relative_error(Verb) const override { return error_; }
  void forward(const Forward<ops::Tensors>&) override {}
  void backward_data(const BackwardData<ops::Tensors>&) override {}
  void backward_weights(const BackwardWeights<ops::Tensors>&) override {}

 private:
  ops::ConvDesc d_;
  double error_;
};

TEST(ConvCandidates, LeaveOutWhatRoundsTooMuch) {
  const ConvCase c = conv_case("blocks_2d");
  const ops::ConvDesc d = channels_last_conv(c.params, c.src, c.weights(), Layout::channels_last(c.weights()));
  const auto found = [&](double error) {
    const auto make = [&](const ops::ConvDesc& asked, Verb) -> ops::Expected<ops::Conv> {
      return std::unique_ptr<ops::Conv>(std::make_unique<RoundingConv>(asked, error));
    };
    return ops::found_by<ops::ConvDesc>(make)({d, Verb::forward, nullptr});
  };
  EXPECT_EQ(found(3).candidates.size(), 1u);
  EXPECT_EQ(found(3).candidates[0].fewest_flops, ops::conv_flops(d) / 4);
  EXPECT_EQ(found(4).unsupported_reason, "fast has 4 times the rounding error of direct sums, more than 3 times");
}

/// A context of one backend has that backend's kernels alone, and a plan of several says which kernel is whose.
TEST_P(ConvCandidatesTest, BackendsStayAmongThemselves) {
  const auto alone = backends::make_context("", "onednn");
  if (const auto op = alone->try_make(desc()))
    for (const Verb v : all_verbs) {
      EXPECT_EQ(op->backend_of(v), "onednn");
      EXPECT_FALSE(is_fast(op->name(v))) << op->name(v);
    }
  const auto choices = nlohmann::json::parse(alone->device().autotuner()->text());
  for (const auto& [key, choice] : choices.items()) EXPECT_FALSE(has_fast(key)) << key;
  for (std::size_t number = 0, most = 1; number < most; ++number) {
    const auto [op, candidates] = make_by(number);
    most = std::max(most, candidates);
    if (!op) return;
    for (const Verb v : all_verbs)
      if (is_fast(op->name(v))) {
        EXPECT_EQ(op->backend_of(v), "kokkos");
      }
  }
}

class ConvImplementationsTest : public ConvCandidatesTest {};

/// On processors with AVX-512 oneDNN has two kernels and more for common convolutions, and one in blocked layouts.
TEST_P(ConvImplementationsTest, SeveralOfOneDnnCanBeChosen) {
  if (!backends::computes_in("onednn", DType::bf16)) GTEST_SKIP() << "no AVX-512";
  std::set<std::string> names;
  for (std::size_t number = 0, most = 1; number < most; ++number) {
    const auto [op, candidates] = make_by(number);
    ASSERT_TRUE(op);
    most = candidates;
    names.insert(op->name(Verb::forward));
  }
  const auto of_onednn = [](const std::string& name) { return name.find(":avx512") != std::string::npos; };
  const auto is_reordered = [](const std::string& name) { return name.ends_with(", reordered"); };
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_reordered)) << fmt::format("{}", fmt::join(names, " | "));
  EXPECT_GE(std::count_if(names.begin(), names.end(), [&](const auto& n) { return of_onednn(n) && !is_reordered(n); }),
            c().type == DType::f32 ? 2 : 1)
      << fmt::format("{}", fmt::join(names, " | "));
}

/// Parameters lie as the training plan wanted them. Whatever is chosen for a plan of the forward pass takes them there.
TEST_P(ConvImplementationsTest, ReadWeightsInTheLayoutThatTheyHave) {
  int seen = 0;
  for (std::size_t number = 0, most = 1; number < most; ++number) {
    const auto [op, candidates] = make_by(number);
    ASSERT_TRUE(op);
    most = candidates;
    ops::ConvDesc d = desc();
    d.weights.layout = op->layout(Verb::forward, Role::weights);
    d.training = false;
    for (std::size_t other = 0, others = 1; other < others; ++other) {
      auto next = ctx().try_make(d);
      if (!next) break;  // oneDNN has no fast kernel for weights that lie so
      others = adopt(other);
      next = ctx().try_make(d);
      ASSERT_TRUE(next);
      EXPECT_EQ(next->layout(Verb::forward, Role::weights), d.weights.layout) << next->name(Verb::forward);
      ++seen;
    }
  }
  EXPECT_GT(seen, 1);
}

std::vector<OnContext<CandidatesCase>> in_both_types(const std::vector<ConvCase>& cases) {
  std::vector<OnContext<CandidatesCase>> all;
  const auto& known = contexts();
  if (std::find(known.begin(), known.end(), "mix") == known.end()) return all;
  for (const auto& c : cases)
    for (const DType type : {DType::f32, DType::bf16}) {
      all.push_back({{c, type}, "mix"});
      all.back().c.name += fmt::format("_{}", to_string(type));
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Convs, ConvCandidatesTest, ::testing::ValuesIn(in_both_types(conv_cases())), CaseName());
INSTANTIATE_TEST_SUITE_P(Convs, ConvImplementationsTest,
                         ::testing::ValuesIn(in_both_types({conv_case("blocks_2d"), conv_case("cosmoflow_second_3d")})),
                         CaseName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConvCandidatesTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConvImplementationsTest);

}  // namespace
}  // namespace keelson::testing
