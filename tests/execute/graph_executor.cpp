#include "engine/execute/graph_executor.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {
namespace {

/// A device whose recordings fail once work was given to them, as those of CUDA graphs do.
class UncapturableDevice : public FakeAsyncDevice {
 public:
  UncapturableDevice() : FakeAsyncDevice(Reach::device) {}
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    ++attempts;
    FakeAsyncDevice::capture(work);
    fail("this cannot be recorded");
  }
  int attempts = 0;
};

struct Nothing : ops::Primitive {
  Layout layout(ops::Verb, ops::Role) const override { return Layout::any(); }
  std::string name(ops::Verb) const override { return "nothing"; }
};

/// Two calls that queue work, cut apart, which count how often that was done.
Program two_calls(FakeAsyncDevice& device, int (&done)[2]) {
  Program program;
  for (int& count : done) {
    const auto run = [&device, &count] { device.queue([&count] { ++count; }); };
    program.calls().push_back({Phase::forward,
                               "node",
                               "op",
                               {},
                               Computation{std::make_shared<Nothing>(), ops::Verb::forward,
                                           [run](const Tensor*) -> std::function<void()> { return run; }}});
  }
  return program;
}

std::vector<BoundCall> bound(const Program& program) {
  std::vector<BoundCall> calls;
  for (const Call& c : program.calls()) calls.push_back({{}, c.computation()->bind(nullptr), {}});
  return calls;
}

TEST(GraphExecutor, RecordsAtTheSecondRunAndAgainAfterForget) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  int done[2] = {};
  const Program program = two_calls(device, done);
  auto calls = bound(program);
  GraphExecutor replay(program, calls, device, {0, 1});
  const int replays[] = {0, 2, 4, 4, 6};
  for (int run = 0; run < 5; ++run) {
    if (run == 3) replay.forget();
    replay.run(0, 2, 0, nullptr);
    device.fence();
    EXPECT_EQ(device.launches(), replays[run]) << run;
    for (int count : done) EXPECT_EQ(count, run + 1);
  }
}

/// The two calls are a recording each, without a cut between them.
TEST(GraphExecutor, CallsOfSomeStepsAreRecordedApart) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  int done[2] = {};
  Program program = two_calls(device, done);
  program.calls()[1].every = {3, 1};
  auto calls = bound(program);
  GraphExecutor replay(program, calls, device, {0});
  const int runs_of_second[] = {0, 1, 1, 1, 2, 2, 2, 3}, replays[] = {0, 1, 2, 3, 5, 6, 7, 9};
  for (std::uint64_t step = 0; step < 8; ++step) {
    replay.run(0, 2, step, nullptr);
    device.fence();
    EXPECT_EQ(done[0], static_cast<int>(step) + 1);
    EXPECT_EQ(done[1], runs_of_second[step]) << step;
    EXPECT_EQ(device.launches(), replays[step]) << step;
  }
}

TEST(GraphExecutor, WhatCannotBeRecordedIsExecutedCallByCall) {
  UncapturableDevice device;
  int done[2] = {};
  const Program program = two_calls(device, done);
  auto calls = bound(program);
  GraphExecutor replay(program, calls, device, {0, 1});
  for (int run = 0; run < 4; ++run) {
    replay.run(0, 2, 0, nullptr);
    device.fence();
    for (int count : done) EXPECT_EQ(count, run + 1);
  }
  EXPECT_EQ(device.attempts, 2) << "each part is tried once";
}

struct Waits : Nothing {
  bool can_be_captured(ops::Verb) const override { return false; }
};

TEST(GraphExecutor, PrimitivesThatWaitStandBetweenRecordings) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  int done[2] = {};
  Program program = two_calls(device, done);
  std::get<Computation>(program.calls()[1].work).primitive = std::make_shared<Waits>();
  auto calls = bound(program);
  GraphExecutor replay(program, calls, device, {0});
  for (int run = 0; run < 4; ++run) {
    replay.run(0, 2, 0, nullptr);
    device.fence();
    EXPECT_EQ(device.launches(), run) << "of the first call alone";
    for (int count : done) EXPECT_EQ(count, run + 1);
  }
}

}  // namespace
}  // namespace keelson::testing
