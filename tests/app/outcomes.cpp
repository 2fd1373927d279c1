#include "apps/common/outcomes.hpp"

#include <gtest/gtest.h>

namespace keelson::app {
namespace {

using Outcomes = std::vector<RankOutcome>;

TEST(Outcomes, NothingToSay) {
  const auto s = describe_outcomes("x", {{0, "a", {0, ""}}, {1, "a", {0, ""}}}, 2);
  EXPECT_EQ(s.exit_code, 0);
  EXPECT_EQ(s.text, "");
  EXPECT_EQ(describe_outcomes("x", {{0, "a", {75, ""}}, {1, "a", {75, ""}}}, 2).exit_code, 75);
}

TEST(Outcomes, WhatAllSayIsSaidOnce) {
  const auto s = describe_outcomes("x", {{0, "a", {2, "no data"}}, {1, "b", {2, "no data"}}}, 2);
  EXPECT_EQ(s.exit_code, 2);
  EXPECT_EQ(s.text, "x: error: no data\n");
  EXPECT_EQ(describe_outcomes("x", {{0, "a", {2, "no data"}}}, 1).text, "x: error: no data\n");
}

TEST(Outcomes, RanksAreNamedWhereTheyDiffer) {
  auto s = describe_outcomes("x", {{0, "a", {0, ""}}, {1, "b", {2, "bad: file"}}}, 2);
  EXPECT_EQ(s.exit_code, 2);
  EXPECT_EQ(s.text, "x: error: rank 1 (b): bad: file\n");
  s = describe_outcomes("x", {{0, "a", {1, "e"}}, {1, "a", {2, "f"}}, {2, "b", {1, "e"}}, {3, "b", {0, ""}}}, 4);
  EXPECT_EQ(s.exit_code, 1);
  EXPECT_EQ(s.text, "x: error: rank 0 (a) and 1 more: e\nx: error: rank 1 (a): f\n");
  s = describe_outcomes("x", {{3, "c", {1, "alone"}}}, 4);  // the others are at work
  EXPECT_EQ(s.text, "x: error: rank 3 (c): alone\n");
}

TEST(Outcomes, ManyDifferentMessagesAreCut) {
  Outcomes outcomes;
  for (int r = 0; r < 8; ++r) outcomes.push_back({r, "a", {1, "message " + std::to_string(r)}});
  const auto s = describe_outcomes("x", outcomes, 8);
  EXPECT_NE(s.text.find("3 more different errors"), std::string::npos) << s.text;
}

TEST(Outcomes, OutOfMemoryNamesMemory) { EXPECT_NE(out_of_memory().find("out of memory: "), std::string::npos); }

}  // namespace
}  // namespace keelson::app
