#include "apps/common/console.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/train/metrics/perplexity.hpp"

namespace keelson::app {
namespace {

/// What a console says at the end of an epoch, into a file.
std::string epoch_line(const TrainerOptions& options, const EpochRecord& record, const Evaluation* validation,
                       std::int64_t skipped = 0, const TargetMetrics* targets = nullptr) {
  std::FILE* out = std::tmpfile();
  Console console(out, options, 10, targets);
  RunState state;
  state.skipped_steps = skipped;
  console.on_epoch(state, record, validation);
  std::rewind(out);
  char text[400] = {};
  const auto length = std::fread(text, 1, sizeof text - 1, out);
  std::fclose(out);
  return {text, length};
}

TEST(Console, TellsErrorsBesideTheBaseline) {
  const TargetMetrics targets(std::make_shared<MeanAbsoluteError>(std::vector<TargetUnit>{{"a"}}), 0);
  TrainerOptions o;
  o.epochs = 3;
  o.evaluation.metrics = targets.all();
  EpochRecord r;
  r.epoch = 2;
  r.train_loss = 0.5;
  r.validation_loss = 0.25;
  r.metric = 0.125;
  r.metric_values = {0.125};
  r.rate = 81.2;
  const Evaluation e;
  const auto line = [&] { return epoch_line(o, r, &e, 0, &targets); };
  EXPECT_EQ(line(), "epoch 2/3  train loss 0.5000  validation loss 0.2500  MAE 0.1250  81.2 samples/s\n")
      << "the mean is not known";

  targets.baseline->set_mean({1});
  const float predictions[] = {0, 0}, truth[] = {0.5f, 1.5f};
  targets.baseline->reset({.samples = 2, .prediction = {1, 1}, .target = {"y", {1}}});
  targets.baseline->update({.count = 2, .predictions = predictions, .targets = truth});
  targets.baseline->reduce(nullptr);
  EXPECT_EQ(line(),
            "epoch 2/3  train loss 0.5000  validation loss 0.2500  MAE 0.1250  (relative to the mean's: a 0.25)  81.2 "
            "samples/s\n");
  EXPECT_EQ(epoch_line(o, r, nullptr), "epoch 2/3  train loss 0.5000  81.2 samples/s\n");
  EXPECT_EQ(epoch_line(o, r, nullptr, 3),
            "epoch 2/3  train loss 0.5000  81.2 samples/s  (3 steps skipped so far, whose gradients overflowed)\n");
}

TEST(Console, TellsPerplexities) {
  TrainerOptions o;
  o.epochs = 13;
  o.unit = {"word", 20};
  o.evaluation.metrics = {std::make_shared<Perplexity>()};
  EpochRecord r;
  r.epoch = 1;
  r.train_loss = 5.5;
  r.validation_loss = 4.815;
  r.metric = std::exp(4.815);
  r.rate = 4321;
  const Evaluation e;
  EXPECT_EQ(
      epoch_line(o, r, &e),
      "epoch 1/13  train loss 5.5000  train perplexity 244.7  validation loss 4.8150  validation perplexity 123.3 "
      " 4321 words/s\n");
}

}  // namespace
}  // namespace keelson::app
