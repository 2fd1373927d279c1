#include "engine/execute/call_checker.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/error.hpp"
#include "engine/ops/combine.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/typed_call.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

/// dst = src, or what `how` says instead.
class Copy : public ops::Softmax {
 public:
  enum class How : std::uint8_t { right, writes_src, leaves_an_element, adds_to_dst };
  explicit Copy(How how) : how_(how) { set_description({TensorDesc::plain({2, 3}), 1}); }
  Layout layout(ops::Verb, ops::Role) const override { return Layout::plain({2, 3}); }
  std::string name(ops::Verb) const override { return "copy"; }
  void forward(const Forward<ops::Tensors>& args) override {
    auto* const src = args.src.data<float>();
    auto* const dst = args.dst.data<float>();
    for (int i = 0; i < 6; ++i)
      if (how_ == How::adds_to_dst)
        dst[i] += src[i];
      else if (how_ != How::leaves_an_element || i != 4)
        dst[i] = src[i];
    if (how_ == How::writes_src) src[2] = 7;
  }
  void backward_data(const BackwardData<ops::Tensors>&) override {}

 private:
  How how_;
};

class CallCheckerTest : public ::testing::Test {
 protected:
  /// What is said of one call of Copy, from `src_memory` to `dst_memory`.
  std::string said(Copy::How how, bool in_place = false) {
    if (!host.device().shares_host_memory()) skip("this test's kernel runs on the host");
    Program program;
    const BufferId src = program.add("x", matrix), dst = in_place ? src : program.add("y", matrix);
    append_call<ops::Softmax, ops::Softmax::Forward>(
        program, {Phase::forward, "node", "softmax"},
        std::static_pointer_cast<ops::Softmax>(std::make_shared<Copy>(how)), {.src = src, .dst = dst});
    const Tensor from(matrix, x.data()), to(matrix, in_place ? x.data() : y.data());
    BoundCall bound{{from, to}, {}, {}};
    bound.run = program.calls()[0].computation()->bind(bound.tensors.data());
    try {
      CallChecker(program, host.device()).run(0, bound);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  Context& host = context("kokkos");
  const TensorDesc matrix = TensorDesc::plain({2, 3});
  std::vector<float> x{1, 2, 3, 4, 5, 6}, y = std::vector<float>(6);
};

TEST_F(CallCheckerTest, SaysNothingOfAPrimitiveThatKeepsItsPromises) {
  EXPECT_EQ(said(Copy::How::right), "");
  EXPECT_EQ(y, x);
  EXPECT_EQ(said(Copy::How::right, true), "") << "in place of the source";
  EXPECT_EQ(x[5], 6);
}

TEST_F(CallCheckerTest, NamesTheSourceThatIsWritten) {
  EXPECT_EQ(said(Copy::How::writes_src),
            "KEELSON_CHECK: node: forward of softmax (copy), operand src (x): is declared as read, but the call has "
            "changed it");
}

TEST_F(CallCheckerTest, NamesTheElementThatIsNotWritten) {
  const std::string start = "KEELSON_CHECK: node: forward of softmax (copy), operand dst (y): ";
  const auto left = said(Copy::How::leaves_an_element), read = said(Copy::How::adds_to_dst);
  EXPECT_TRUE(left.starts_with(start + "is declared as written, but element 4 of 6 in memory was not written")) << left;
  EXPECT_TRUE(read.starts_with(start + "is declared as written, but element 0 of 6")) << read;
}

TEST_F(CallCheckerTest, SaysNothingWhereASourceHasTheBitsOfTheFill) {
  const std::uint32_t fill = 0xffffffffu;
  std::memcpy(&x[1], &fill, sizeof fill);
  EXPECT_EQ(said(Copy::How::right), "");
}

TEST(KeelsonCheck, RefusesOtherValues) {
  const EnvironmentVariable on("KEELSON_CHECK", "yes");
  EXPECT_THROW(checks_calls(), InputError);
}

std::vector<double> losses(Context& context, const Graph& graph, const char* check) {
  const EnvironmentVariable mode("KEELSON_CHECK", check);
  Sgd optimizer;
  optimizer.momentum = 0.9f;
  optimizer.clip_norm = 2;
  Parameters parameters(graph, context, 1);
  Executor executor(graph, parameters, {.batch = 2, .optimizer = &optimizer});
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) {
    fill_inputs(context, executor, i);
    executor.forward(
        {.seed = 3, .step = static_cast<std::uint64_t>(i), .inverse_samples = 0.5f, .learning_rate = 0.1f});
    executor.backward();
    executor.update();
    executor.carry_states();
    all.push_back(executor.loss());
  }
  return all;
}

TEST(KeelsonCheck, NetworksPassAndComputeTheSame) {
  for (const Graph& graph : {volumes(), words()}) {
    for (const auto& name : network_contexts())
      EXPECT_EQ(losses(context(name), graph, "1"), losses(context(name), graph, "0")) << name;
    const auto checked = make_fake_async_context(), captured = make_fake_async_context();
    EXPECT_EQ(losses(*checked, graph, "1"), losses(*captured, graph, "0"));
    EXPECT_EQ(fake_async_device(*checked).launches(), 0);
    EXPECT_GT(fake_async_device(*captured).launches(), 0);
  }
}

}  // namespace
}  // namespace keelson::testing
