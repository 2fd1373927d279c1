#include "apps/bench/scale/profile.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/bench/scale/machine.hpp"
#include "apps/bench/scale/study.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

PlanRow row(const std::string& phase, double ms, std::size_t gradient_bytes = 0) {
  PlanRow r;
  r.phase = phase;
  r.milliseconds = ms;
  r.gradient_bytes = gradient_bytes;
  r.gflop = ms;
  return r;
}

StepProfile profile() {
  return profile_of({row("forward", 10), row("backward", 1, 400), row("backward", 2), row("backward", 3, 800),
                     row("backward", 4, 100), row("update", 5)},
                    "a net");
}

TEST(StepProfile, GradientsAreReadyBehindTheCallThatCompletesThem) {
  const auto p = profile();
  EXPECT_DOUBLE_EQ(p.forward, 0.010);
  EXPECT_DOUBLE_EQ(p.backward, 0.010);
  EXPECT_DOUBLE_EQ(p.update, 0.005);
  EXPECT_DOUBLE_EQ(p.gflop, 25);
  ASSERT_EQ(p.gradients.size(), 3u);
  EXPECT_EQ(p.gradients[1].bytes, 800u);
  EXPECT_DOUBLE_EQ(p.gradients[1].ready, 0.006);
  EXPECT_EQ(p.gradient_bytes(), 1300u);
}

TEST(StepProfile, BucketsAreReadyWithTheirLastGradient) {
  const auto p = profile();
  const auto buckets = p.buckets(500);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].bytes, 1200u);
  EXPECT_DOUBLE_EQ(buckets[0].ready, 0.006);
  EXPECT_EQ(buckets[1].bytes, 100u);
  ASSERT_EQ(p.buckets(0).size(), 1u);
  EXPECT_EQ(p.buckets(0)[0].bytes, 1300u);
  EXPECT_DOUBLE_EQ(p.buckets(0)[0].ready, 0.010);
}

TEST(StepProfile, MoreSamplesLeaveTheUpdateAsItIs) {
  const auto p = profile().with_samples(3);
  EXPECT_DOUBLE_EQ(p.forward, 0.030);
  EXPECT_DOUBLE_EQ(p.gradients[0].ready, 0.003);
  EXPECT_DOUBLE_EQ(p.update, 0.005);
  EXPECT_DOUBLE_EQ(p.gflop, 75);
}

TEST(StepProfile, RefusesAStepWithoutGradients) { EXPECT_THROW(profile_of({row("forward", 1)}, "x"), InputError); }

TEST(Machine, DescriptionsSurviveJson) {
  for (const auto& name : machine_names()) {
    const Machine m = make_machine(name);
    EXPECT_EQ(json_of(machine_of(json_of(m), "a test")), json_of(m)) << name;
  }
}

TEST(Machine, RefusesWhatIsMissingUnknownOrImpossible) {
  const auto broken = [](auto change) {
    auto j = json_of(make_machine("cori"));
    change(j);
    return j;
  };
  const auto refusal = [](const nlohmann::json& j) -> std::string {
    try {
      machine_of(j, "m.json");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(broken([](auto& j) { j.erase("node_latency"); })), "m.json: the machine has no \"node_latency\"");
  EXPECT_NE(refusal(broken([](auto& j) { j["speed"] = 1; })).find("no \"speed\""), std::string::npos);
  EXPECT_EQ(refusal(broken([](auto& j) { j["node_bandwidth"] = 0; })),
            "m.json: \"node_bandwidth\" is 0, expected a number above 0");
  EXPECT_NE(refusal(broken([](auto& j) { j["ranks_per_node"] = "six"; })).find("\"six\""), std::string::npos);
}

TEST(Exchanges, EachAddsOneThing) {
  std::vector<std::string> names;
  for (const auto& e : exchanges(make_machine("summit"), 1000)) names.push_back(e.name);
  EXPECT_EQ(names, (std::vector<std::string>{"blocking", "buckets", "overlap", "two-level", "compressed"}));
  const auto cori = exchanges(make_machine("cori"), 1000);
  EXPECT_EQ(cori.size(), 4u);
  EXPECT_EQ(cori.front().settings.bucket_bytes, 0u);
  EXPECT_TRUE(cori.back().settings.overlap && cori.back().settings.compress);
}

}  // namespace
}  // namespace keelson::bench
