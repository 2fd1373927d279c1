#include "apps/common/report/metrics_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "tests/train/support.hpp"

namespace keelson::app {
namespace {

using testing::content;
using testing::Folder;

TEST(MetricsFile, HasTheNoiseScaleOfRunsThatMeasureIt) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    StepRecord step{3, 0.5, 0.25, 1e-3, 80, {}};
    file.write(step);
    step.step = 4;
    step.noise = {.gradient = 2, .noise = 512};
    file.write(step);
    EpochRecord e;
    e.epoch = 1;
    e.step = 4;
    e.noise = {.gradient = -1, .noise = 512};
    file.write(e);
  }
  const auto text = content(path);
  EXPECT_NE(text.find(R"("noise_scale":256.0)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("noise_scale":null)"), std::string::npos) << "the gradient is below its noise";
  EXPECT_EQ(text.substr(0, text.find('\n')).find("noise"), std::string::npos) << "not measured";
  const auto h = read_metrics(path);
  EXPECT_FALSE(h.steps.at(0).noise.known());
  EXPECT_EQ(h.steps.at(1).noise.samples(), 256);
  EXPECT_EQ(h.epochs.at(0).noise.gradient, -1);
  EXPECT_TRUE(std::isnan(h.epochs.at(0).noise.samples()));
}

TEST(MetricsFile, ComeBack) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    file.write(StepRecord{3, 0.5, 0.25, 1e-3, 80, {1, 2, {3, 4, 5}, 6}});
    file.write(StepRecord{4, 0.75, NAN, 1e-3, 80, {}});
    EpochRecord e;
    e.epoch = 1;
    e.step = 4;
    e.train_loss = 0.5;
    e.metric = 0.1;
    e.metric_values = {0.25, NAN};
    file.write(e);
    file.write(EventRecord{"stop", 4, "all epochs done"});
  }
  const auto h = read_metrics(path);
  ASSERT_EQ(h.steps.size(), 2u);
  EXPECT_EQ(h.steps[0].loss, 0.25);
  EXPECT_EQ(h.steps[0].seconds.copy, 6);
  EXPECT_EQ(h.steps[0].seconds.input.decoding, 4);
  EXPECT_EQ(h.steps[0].seconds.data(), 12);
  EXPECT_TRUE(std::isnan(h.steps[1].loss));
  ASSERT_EQ(h.epochs.size(), 1u);
  EXPECT_EQ(h.epochs[0].metric_values[0], 0.25);
  EXPECT_TRUE(std::isnan(h.epochs[0].metric_values[1]));
  EXPECT_TRUE(std::isnan(h.epochs[0].validation_loss));
  EXPECT_EQ(h.events.at(0).text, "all epochs done");
}

TEST(MetricsFile, KnowsHowTheNetworkChanged) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    file.write(EventRecord{"network change", 8, "growth", NetworkRecord{2, {30, {{"a", 3}}}, {50, {{"a", 5}}}}});
  }
  const auto events = read_metrics(path).events;
  ASSERT_EQ(events.size(), 1u);
  ASSERT_TRUE(events[0].network);
  EXPECT_EQ(events[0].network->epoch, 2);
  EXPECT_EQ(events[0].network->before.parameters, 30);
  EXPECT_EQ(events[0].network->after.widths.at("a"), 5);
  std::ofstream(path) << R"({"type":"event","event":"network change","step":8,"text":"of an older file"})" << "\n";
  EXPECT_FALSE(read_metrics(path).events.at(0).network);
}

TEST(MetricsFile, NamesItsUnit) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  EpochRecord e;
  e.rate = 81;
  {
    MetricsFile file(path);
    file.write(StepRecord{1, 0.5, 0.25, 1e-3, 80});
  }
  EXPECT_NE(content(path).find("\"samples_per_second\":80"), std::string::npos);
  {
    MetricsFile file(path, 1, {"word", 20});
    file.write(e);
  }
  EXPECT_NE(content(path).find("\"words_per_second\":81"), std::string::npos);
  const auto h = read_metrics(path);
  EXPECT_EQ(h.steps.at(0).rate, 80);
  EXPECT_EQ(h.epochs.at(0).rate, 81);
}

TEST(MetricsFile, LinesThatAreNoRecordsDoNoHarm) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  for (const char* line :
       {"garbage", "[1,2]", R"({"type":"step","step":"x"})", R"({"type":"step","step":1e300})",
        R"({"type":7,"step":1})", R"({"type":"epoch","step":1})", R"({"type":"epoch","step":null,"epoch":1})",
        R"({"type":"event","step":1,"event":[]})", R"({"type":"step","step":1,"seconds":3})", "\xFF\xFE", ""}) {
    std::ofstream(path) << line << "\n" << R"({"type":"step","step":2,"loss":0.5})" << "\n";
    {
      MetricsFile file(path, 4);
    }
    const auto h = read_metrics(path);
    EXPECT_TRUE(h.events.empty() && h.epochs.empty()) << line;
    ASSERT_FALSE(h.steps.empty()) << line;
    EXPECT_EQ(h.steps.back().loss, 0.5) << line;
  }
}

TEST(MetricsFile, ResumingTellsWhatIsLeftOut) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  const auto record = [](int step) { return fmt::format(R"({{"type":"step","step":{},"loss":0.5}})", step) + "\n"; };
  const auto said = [&](const std::string& lines) {
    std::ofstream(path) << lines;
    ::testing::internal::CaptureStderr();
    {
      const MetricsFile file(path, 8);
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(record(1) + record(3) + record(9) + "{\"type"), "") << "as killed runs leave it";
  EXPECT_EQ(read_metrics(path).steps.size(), 2u);
  const auto warning = "keelson: warning: " + path.string();
  EXPECT_EQ(said(record(1) + "garbage\n" + record(3)), warning + ": a line is left out: line 2 is no record\n");
  EXPECT_EQ(said(record(1) + record(3) + record(3)),
            warning + ": a line is left out: line 3 is of step 3, after step 3\n");
  EXPECT_EQ(said(record(5) + record(1) + "\n" + record(2) + record(6)),
            warning + ": 3 lines are left out: line 2 is of step 1, after step 5, and so on\n");
  EXPECT_EQ(content(path), record(5) + record(6));
  EXPECT_EQ(said(record(5) + std::string(3 << 20, 'x') + "\n" + record(6)),
            warning + ": a line is left out: line 2 is no record\n");
  EXPECT_EQ(content(path), record(5) + record(6));
  const std::string epoch = R"({"type":"epoch","step":4,"epoch":1})";
  EXPECT_EQ(said(record(4) + epoch + "\n" + epoch + "\n"),
            warning + ": a line is left out: line 3 is of epoch 1, after epoch 1\n");
}

TEST(MetricsFile, APipeIsRefused) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(MetricsFile(path, 4), InputError);
  EXPECT_THROW(MetricsFile{path}, InputError);
  EXPECT_THROW(read_metrics(path), InputError);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(MetricsFile, NamesOfFilesMayHoldAnyBytes) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsFile(path).write(EventRecord{"resume", 1, "runs/\xFF"});
  EXPECT_EQ(read_metrics(path).events.at(0).text, "runs/\xEF\xBF\xBD");
}

TEST(MetricsFile, ResumedRunsHoldNothingTwice) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    for (int s = 1; s <= 6; ++s) file.write(StepRecord{s, 0, 0.1 * s});
  }
  std::ofstream(path, std::ios::app) << "{\"type\":\"step\",\"ste";  // torn by a kill
  {
    MetricsFile file(path, 4);
    file.write(StepRecord{5, 0, 55});
  }
  const auto h = read_metrics(path);
  ASSERT_EQ(h.steps.size(), 5u);
  EXPECT_EQ(h.steps[3].loss, 0.1 * 4);
  EXPECT_EQ(h.steps[4].loss, 55);
  EXPECT_EQ(content(path).find("\"ste\n"), std::string::npos);
  MetricsFile anew(path);
  EXPECT_TRUE(content(path).empty());
}

}  // namespace
}  // namespace keelson::app
