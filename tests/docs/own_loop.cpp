// The loop of docs/adding-a-network.md, as it stands there (tests/cli/test_readme.py compares them), and what it does.
#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

#include <memory>
#include <vector>

#include "engine/train/metrics/target_metric.hpp"
#include "engine/train/trainer.hpp"

using namespace keelson;

/// Trains until a validation is much worse than the best one. Returns the best mean absolute error.
double train(const Graph& net, Parameters& parameters, const Dataset& training, const Dataset& validation) {
  TrainerOptions options;
  options.network = "mine";  // checkpoints carry this name
  options.batch = 8;
  options.epochs = 40;
  options.schedule.base = 0.02;
  options.evaluation.metrics = {std::make_shared<MeanAbsoluteError>()};
  Trainer trainer(net, parameters, training, &validation, /*communicator=*/nullptr, options);
  while (trainer.step()) {  // false: all epochs are done
    if (!trainer.epoch_done()) continue;
    const EpochRecord epoch = trainer.end_epoch();  // validates
    if (epoch.best) trainer.save_checkpoint(/*best=*/true);
    if (epoch.metric > 1.5 * trainer.state().best_metric) break;
  }
  return trainer.state().best_metric;
}

/// One step on samples that the caller has made, in the place of a batch of the data set. Returns their loss.
double step_on(Trainer& trainer, std::vector<float>& x, std::vector<float>& y, std::int64_t samples) {
  Batch batch;
  batch.fields = {x.data(), y.data()};  // in the order of Dataset::fields(), with room for options.batch samples
  batch.count = batch.global_count = samples;
  trainer.step(batch);
  trainer.wait();  // on a GPU the loss of a step is known later
  return trainer.last_step().loss;
}

namespace {

using namespace keelson::testing;

TEST(OwnLoop, Learns) {
  const CubeDataset training(64), validation(32, 6, 99);
  const auto net = small_network(0);
  Parameters parameters(net, context(network_contexts().back()), 1);
  EXPECT_LT(train(net, parameters, training, validation), 0.35);  // always predicting the mean: 0.5
}

TEST(OwnLoop, TakesSamplesOfTheCaller) {
  const CubeDataset training(64);
  const auto net = small_network(0);
  Parameters parameters(net, context(network_contexts().back()), 1);
  auto options = small_options();
  Trainer trainer(net, parameters, training, nullptr, nullptr, options);
  std::vector<float> x(4 * 432), y(4 * 2);
  for (std::size_t n = 0; n < 3; ++n) {
    void* dst[] = {&x[n * 432], &y[n * 2]};
    training.read(static_cast<std::int64_t>(n), dst);
  }
  const double first = step_on(trainer, x, y, 3);
  for (int i = 0; i < 50; ++i) step_on(trainer, x, y, 3);
  EXPECT_LT(step_on(trainer, x, y, 3), 0.1 * first) << "three samples are soon known by heart";
}

}  // namespace
