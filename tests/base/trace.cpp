#include "engine/base/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"

namespace keelson {
namespace {

std::vector<std::string> names(const TraceRecorder& recorder) {
  std::vector<std::string> all;
  for (const TraceEvent& e : recorder.events()) all.emplace_back(e.name);
  return all;
}

TEST(Trace, NothingIsRecordedWithoutARecorder) {
  EXPECT_EQ(TraceRecorder::active(), nullptr);
  {
    const TraceSpan span("lost", "test");
  }
  const TraceRecorder recorder(8);
  EXPECT_TRUE(recorder.events().empty());
}

TEST(Trace, SpansLieWithinOneAnother) {
  TraceRecorder recorder(8);
  {
    const Activity step(Activity::Kind::step, 7, 2);
    {
      const TraceSpan span("forward", "phase");
    }
    {
      const TraceSpan span(recorder.keep(std::string("back") + "ward"), "phase");
    }
  }
  recorder.stop();
  {
    const TraceSpan span("too late", "test");
  }
  EXPECT_EQ(names(recorder), (std::vector<std::string>{"step", "forward", "backward"}));
  const auto events = recorder.events();
  EXPECT_EQ(events[0].step, 7);
  for (const TraceEvent& e : events) {
    EXPECT_LE(e.begin(), e.end());
    EXPECT_GE(e.begin(), events[0].begin());
    EXPECT_LE(e.end(), events[0].end());
  }
}

TEST(Trace, NewEventsReplaceTheOldest) {
  TraceRecorder recorder(3);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    const TraceTime at = name[0];
    recorder.span(name, "test", at, at + 1);
  }
  EXPECT_EQ(names(recorder), (std::vector<std::string>{"c", "d", "e"}));
  EXPECT_EQ(recorder.dropped(), 2);
}

TEST(Trace, ThreadsHaveTracksOfTheirOwn) {
  TraceRecorder recorder(1000);
  const auto work = [] {
    for (int i = 0; i < 100; ++i) const TraceSpan span("work", "test");
  };
  std::thread one([&] {
    name_thread_in_traces("decoder");
    work();
  });
  one.join();
  std::thread two(work), three(work);
  two.join();
  three.join();
  EXPECT_EQ(recorder.threads(), (std::vector<std::string>{"thread 0", "decoder", "thread 2", "thread 3"}));
  int of_track[4] = {};
  for (const TraceEvent& e : recorder.events()) ++of_track[e.track];
  EXPECT_EQ(of_track[0], 0);
  EXPECT_TRUE(std::all_of(of_track + 1, of_track + 4, [](int n) { return n == 100; }));
}

TEST(Trace, OneRecorderAtATime) {
  TraceRecorder recorder(1);
  EXPECT_THROW(TraceRecorder(1), Error);
  recorder.stop();
  EXPECT_NO_THROW(TraceRecorder(1));
}

TEST(Activity, TheOutermostIsTold) {
  EXPECT_EQ(Activity::describe(), "");
  {
    const Activity validation(Activity::Kind::validation, 40, 2);
    const Activity evaluation(Activity::Kind::evaluation);
    EXPECT_EQ(Activity::describe(), "the validation after step 40 (epoch 2)");
  }
  const Activity evaluation(Activity::Kind::evaluation);
  EXPECT_EQ(Activity::describe(), "an evaluation");
}

}  // namespace
}  // namespace keelson
