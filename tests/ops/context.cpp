#include "engine/ops/context.hpp"

#include <gtest/gtest.h>

#include "backends/kokkos/factory.hpp"
#include "backends/registry.hpp"
#include "engine/ops/combine.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

const ops::SoftmaxDesc softmax{TensorDesc::plain({2, 3}), 1};

/// A context whose first backend answers with `answer`; the second is Kokkos.
template <class Answer>
std::unique_ptr<Context> context_with(Answer answer) {
  context("kokkos");  // skips where there is no device
  auto device = backends::make_kokkos_device();
  std::vector<std::unique_ptr<ops::OpFactory>> factories;
  factories.push_back(std::make_unique<ops::OpFactory>("first"));
  factories[0]->add<ops::SoftmaxDesc>(answer);
  factories.push_back(backends::make_kokkos_factory(*device));
  return std::make_unique<Context>(std::move(device), std::move(factories));
}

using Answer = ops::Expected<ops::Softmax>;

TEST(Context, AsksTheNextBackendWhereOneDoesNotSupportAnOp) {
  const auto c = context_with([](const ops::SoftmaxDesc&) -> Answer { return std::string("too soft"); });
  std::string why;
  const auto made = c->try_make(softmax, &why);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->backend(), "kokkos");
  EXPECT_EQ(made->description().src, softmax.src);
}

TEST(Context, FailuresEndTheMakingAndAskNobodyElse) {
  const auto full = context_with([](const ops::SoftmaxDesc&) -> Answer { throw OutOfMemory("no room"); });
  EXPECT_THROW(full->try_make(softmax), OutOfMemory);
  const auto broken = context_with([](const ops::SoftmaxDesc&) -> Answer {
    KEELSON_EXPECT(false);
    return std::string();
  });
  EXPECT_THROW(broken->try_make(softmax), Error);
}

TEST(Context, SaysWhyNoBackendMakesAnOp) {
  const auto c = context_with([](const ops::SoftmaxDesc&) -> Answer { return std::string("too soft"); });
  try {
    c->make(ops::SoftmaxDesc{{{2, 3}, DType::u8, Layout::plain({2, 3})}, 1});
    FAIL() << "a softmax of bytes";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("first: too soft; kokkos: "), std::string::npos) << e.what();
  }
}

TEST(Context, TellsEachRemarkOnce) {
  const auto c = context_with([](const ops::SoftmaxDesc& d) {
    Answer answer(context("kokkos").make(d));
    if (d.axis == 1) answer.remark = "softmax is computed slowly: no library";
    return answer;
  });
  std::vector<std::string> told;
  EXPECT_TRUE(c->try_make(softmax)) << "nobody listens";
  c->on_remark([&](const std::string& text) { told.push_back(text); });
  c->make(ops::SoftmaxDesc{TensorDesc::plain({2, 3}), 0});
  EXPECT_TRUE(told.empty());
  c->make(softmax);
  c->make(ops::SoftmaxDesc{TensorDesc::plain({4, 5}), 1});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0], "softmax is computed slowly: no library (first: " + describe(softmax) + ")");
}

}  // namespace
}  // namespace keelson::testing
