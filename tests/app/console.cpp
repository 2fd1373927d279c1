#include "apps/common/console.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace keelson::app {
namespace {

/// What a console says at the end of an epoch, into a file.
std::string epoch_line(const TrainerOptions& options, const EpochRecord& record, const Evaluation* validation,
                       std::int64_t skipped = 0) {
  std::FILE* out = std::tmpfile();
  Console console(out, options, 10);
  RunState state;
  state.target_sum = {3};
  state.target_samples = 3;
  state.skipped_steps = skipped;
  console.on_epoch(state, record, validation);
  std::rewind(out);
  char text[400] = {};
  const auto length = std::fread(text, 1, sizeof text - 1, out);
  std::fclose(out);
  return {text, length};
}

TEST(Console, TellsErrorsBesideTheBaseline) {
  TrainerOptions o;
  o.epochs = 3;
  o.evaluation.metric.targets = {{"a"}};
  EpochRecord r;
  r.epoch = 2;
  r.train_loss = 0.5;
  r.validation_loss = 0.25;
  r.metric = 0.125;
  r.target_errors = {0.125};
  r.rate = 81.2;
  Evaluation e;
  e.samples = 2;
  e.truth = {0.5f, 1.5f};
  EXPECT_EQ(epoch_line(o, r, &e),
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
  o.evaluation.metric.kind = MetricSpec::Kind::perplexity;
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
