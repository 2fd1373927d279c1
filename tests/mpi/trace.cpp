#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock_comparison.hpp"
#include "engine/base/trace_file.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

using Json = nlohmann::json;

class TraceTest : public MpiTest {
 protected:
  void SetUp() override { folder_ = world().allgather(own_.path().string())[0]; }

  /// Trains two epochs of five steps, with validation.
  static void train() {
    const auto graph = small_network();
    Parameters parameters(graph, context(network_contexts().back()), 1);
    const CubeDataset training(20), validation(8, 6, 99);
    TrainerOptions o;
    o.batch = 4 / world().size();
    o.epochs = 2;
    Trainer(graph, parameters, training, &validation, &world(), o).run();
  }

  Json read(const std::string& name) {
    world().barrier();
    std::ifstream in(folder_ / name);
    return Json::parse(in, nullptr, false);
  }

  const Folder own_;
  std::filesystem::path folder_;  ///< of rank 0
};

TEST_F(TraceTest, ClocksOfOneMachineDifferByNoMoreThanTheError) {
  const ClockComparison found = compare_clocks(world());
  EXPECT_LE(std::abs(found.offset), found.error);
  EXPECT_EQ(found.error > 0, rank() > 0);
}

TEST_F(TraceTest, TimesFollowTheDrift) {
  const ClockComparison first{1000, 500, 1}, last{3000, 540, 1};
  EXPECT_EQ(on_first_ranks_clock(0, first, last), 500);
  EXPECT_EQ(on_first_ranks_clock(1000, first, last), 1500);
  EXPECT_EQ(on_first_ranks_clock(2000, first, last), 2520);
  EXPECT_EQ(on_first_ranks_clock(3000, first, last), 3540);
  EXPECT_EQ(on_first_ranks_clock(4000, first, last), 4540);
  TraceTime before = 0;
  for (TraceTime t = 0; t < 4000; ++t) {
    const TraceTime now = on_first_ranks_clock(t, first, last);
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST_F(TraceTest, OneFileHasTheEventsOfAllRanks) {
  {
    TraceFile trace(folder_ / "trace.json", world());
    train();
    trace.finish();
  }
  const Json file = read("trace.json");
  ASSERT_FALSE(file.is_discarded());
  EXPECT_EQ(file["otherData"]["complete"], true);
  ASSERT_EQ(file["otherData"]["ranks"].size(), static_cast<std::size_t>(size()));
  std::map<int, std::multiset<std::string>> names;               // of the spans of a rank
  std::map<std::pair<int, int>, double> last_begin;              // of a thread
  std::map<std::pair<int, int>, std::vector<double>> open_ends;  // of the spans that the last one lies within
  std::map<int, std::string> processes;
  for (const Json& e : file["traceEvents"]) {
    const int pid = e["pid"];
    if (e["ph"] == "M" && e["name"] == "process_name") processes[pid] = e["args"]["name"];
    if (e["ph"] == "M") continue;
    const double begin = e["ts"];
    EXPECT_GE(begin, 0) << e;
    if (e["ph"] != "X") continue;
    names[pid].insert(e["name"].get<std::string>());
    const std::pair thread(pid, e["tid"].get<int>());
    EXPECT_GE(begin, last_begin[thread]) << e;
    last_begin[thread] = begin;
    auto& ends = open_ends[thread];
    const double end = begin + e["dur"].get<double>();
    const double rounding = 0.002;  // begin and duration are rounded to nanoseconds, and a double adds them up
    while (!ends.empty() && ends.back() <= begin + rounding) ends.pop_back();
    EXPECT_TRUE(ends.empty() || end <= ends.back() + rounding) << e << " leaves the span that it began in";
    ends.push_back(end);
  }
  ASSERT_EQ(processes.size(), static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(processes[r].rfind("rank " + std::to_string(r) + " (", 0), 0u) << processes[r];
    for (const char* name : {"step", "forward", "backward", "update"}) EXPECT_GE(names[r].count(name), 10u) << name;
    EXPECT_EQ(names[r].count("step"), 10u);
    EXPECT_EQ(names[r].count("validation"), 2u);
    EXPECT_EQ(names[r].count("evaluation"), 2u);
    EXPECT_EQ(names[r].count("input wait") >= 10, true);
    EXPECT_GT(names[r].count("read a sample"), 0u);
    EXPECT_EQ(names[r].count("exchange") > 0, size() > 1);
    EXPECT_TRUE(std::any_of(names[r].begin(), names[r].end(), [](auto& n) { return n.find("/conv bwd") != n.npos; }));
  }
}

/// No rank's sum can be there before the last rank has given its part: seen so only if the clocks are aligned.
TEST_F(TraceTest, CollectivesEndAfterAllRanksHaveStartedThem) {
  KEELSON_NEED_RANKS(2);
  if (context(network_contexts().back()).device().is_asynchronous())
    GTEST_SKIP() << "the host only queues the exchange";
  {
    TraceFile trace(folder_ / "trace.json", world());
    train();
    trace.finish();
  }
  const Json file = read("trace.json");
  ASSERT_FALSE(file.is_discarded());
  struct Exchange {
    double begin = 0, end = 0, parts = 0;
  };
  std::map<std::string, std::map<int, std::vector<Exchange>>> exchanges;  // by name, then rank
  std::map<std::string, double> part_begin;
  for (const Json& e : file["traceEvents"]) {
    if (e["ph"] != "b" && e["ph"] != "e") continue;
    const std::string name = e["name"], id = e["id"];
    const bool part = name == "posting" || name == "under way" || name == "landed" || name == "waited for";
    static std::map<std::string, Exchange*> open;  // by id
    if (!part && e["ph"] == "b") {
      auto& all = exchanges[name][e["pid"]];
      all.reserve(100);
      open[id] = &all.emplace_back(Exchange{e["ts"]});
    } else if (!part) {
      open[id]->end = e["ts"];
    } else if (e["ph"] == "b") {
      part_begin[id] = e["ts"];
    } else {
      open[id]->parts += e["ts"].get<double>() - part_begin[id];
    }
  }
  ASSERT_TRUE(std::any_of(exchanges.begin(), exchanges.end(),
                          [](const auto& e) { return e.first.rfind("gradient bucket", 0) == 0; }));
  double error = 0;
  for (const Json& r : file["otherData"]["ranks"])
    for (const char* when : {"clock_at_start", "clock_at_end"})
      error = std::max(error, r[when]["error_us"].get<double>());
  for (const auto& [name, of_rank] : exchanges) {
    ASSERT_EQ(of_rank.size(), static_cast<std::size_t>(size())) << name;
    for (std::size_t i = 0; i < 10; ++i) {
      double last_begin = 0, first_end = 1e30;
      for (const auto& [r, all] : of_rank) {
        ASSERT_EQ(all.size(), 10u) << name;
        last_begin = std::max(last_begin, all[i].begin);
        first_end = std::min(first_end, all[i].end);
        EXPECT_NEAR(all[i].parts, all[i].end - all[i].begin, 0.01) << name << ": parts follow each other";
      }
      EXPECT_GE(first_end + 2 * error, last_begin) << name;
    }
  }
}

TEST_F(TraceTest, TheNewestEventsAreKept) {
  {
    TraceFile trace(folder_ / "trace.json", world(), 50);
    train();
    trace.finish();
  }
  const Json file = read("trace.json");
  ASSERT_FALSE(file.is_discarded());
  EXPECT_EQ(file["otherData"]["event_limit_per_rank"], 50);
  for (const Json& r : file["otherData"]["ranks"]) {
    EXPECT_EQ(r["events"], 50);
    EXPECT_GT(r["dropped_events"], 0);
  }
  int validations = 0;
  for (const Json& e : file["traceEvents"]) {
    if (e["name"] != "validation") continue;
    EXPECT_EQ(e["args"]["step"], 10) << "the last one";
    ++validations;
  }
  EXPECT_EQ(validations, size());
}

TEST_F(TraceTest, WhatARankHasSeenStaysWhenItFails) {
  {
    TraceFile trace(folder_ / "trace.json", world());
    train();
  }  // as by an exception
  const std::string name = "trace.json" + (rank() == 0 ? "" : ".rank-" + std::to_string(rank()));
  std::ifstream in(folder_ / name);
  const Json own = Json::parse(in, nullptr, false);
  ASSERT_FALSE(own.is_discarded());
  EXPECT_EQ(own["otherData"]["complete"], false);
  ASSERT_EQ(own["otherData"]["ranks"].size(), 1u);
  EXPECT_EQ(own["otherData"]["ranks"][0]["rank"], rank());
  world().barrier();
}

TEST_F(TraceTest, RefusesWhatCannotBeWritten) {
  EXPECT_THROW(TraceFile(folder_, world()), InputError);
  EXPECT_THROW(TraceFile(folder_ / "no such folder" / "trace.json", world()), InputError);
  EXPECT_EQ(TraceRecorder::active(), nullptr);
}

}  // namespace
}  // namespace keelson::testing
