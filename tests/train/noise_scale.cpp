#include "engine/train/noise_scale.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "tests/support/fake_async_context.hpp"
#include "tests/support/linear_data.hpp"
#include "tests/train/support.hpp"

/// TrainerOptions::noise_scale on one rank, with micro-batches.
namespace keelson::testing {
namespace {

/// Learning rate 0, so that the gradients of all steps are those of the parameters 0.
TrainerOptions still(std::int64_t batch, std::int64_t micro_batches, std::int64_t every) {
  TrainerOptions o;
  o.network = "linear";
  o.batch = batch;
  o.epochs = 4;
  o.seed = 7;
  o.schedule.base = 0;
  o.micro_batches = micro_batches;
  o.noise_scale = every;
  return o;
}

/// Computes in double precision what the paper's formulas give for each step with parameters of 0.
struct NoiseOracle final : TrainObserver {
  NoiseOracle(std::int64_t micro_batch, std::int64_t every) : size(micro_batch), interval(every) {}

  using Gradient = std::vector<double>;
  static Gradient sum(const Batch& b, std::int64_t first, std::int64_t end) {
    Gradient g(LinearDataset::features + 1);
    for (std::int64_t i = first; i < end; ++i) {
      const auto* x = static_cast<const float*>(b.fields[0]) + i * LinearDataset::features;
      const double y = static_cast<const float*>(b.fields[1])[i];
      for (std::size_t k = 0; k < g.size(); ++k) g[k] += -2 * y * (k + 1 < g.size() ? static_cast<double>(x[k]) : 1);
    }
    return g;
  }
  static double square(const Gradient& g, double scale) {
    double s = 0;
    for (const double v : g) s += scale * scale * v * v;
    return s;
  }

  void on_batch(const RunState&, const Batch& b) override {
    const auto count = static_cast<double>(b.count);
    const double whole = square(sum(b, 0, b.count), 1 / count);
    double parts = 0, q = 0;  // terms of the gradient, of parts that may be short
    for (std::int64_t i = 0; i < b.count; i += size) {
      const std::int64_t end = std::min(i + size, b.count);
      parts += square(sum(b, i, end), 1 / count);
      q += std::pow(static_cast<double>(end - i) / count, 2);
    }
    const double gradient = (whole - parts) / (1 - q), noise = count * (parts - q * whole) / (1 - q);
    queued.push_back({gradient, noise});
    if (b.count % size != 0) return;
    const std::int64_t whole_parts = b.count / size;
    const auto n = static_cast<double>(whole_parts), part = count / n;  // equal parts: as the paper has it
    const double mean = n * parts;                                      // of |G_b|^2
    EXPECT_NEAR(gradient, (count * whole - part * mean) / (count - part), 1e-9 * std::abs(whole));
    EXPECT_NEAR(noise, (mean - whole) / (1 / part - 1 / count), 1e-9 * std::abs(noise));
  }
  void on_step(const RunState&, const StepRecord& r) override {
    const auto [gradient, noise] = queued.front();
    queued.pop_front();
    if (r.step % interval == 0) {
      for (double* sum : {&gradients, &noises, &weight}) *sum *= noise_scale_decay;
      gradients += gradient;
      noises += noise;
      weight += 1;
    }
    EXPECT_EQ(r.noise.known(), r.step >= interval);
    if (!r.noise.known()) return;
    EXPECT_NEAR(r.noise.gradient, gradients / weight, 2e-5 * (std::abs(gradients) + noises / 64) / weight) << r.step;
    EXPECT_NEAR(r.noise.noise, noises / weight, 2e-5 * noises / weight) << r.step;
    last = r.noise;
    ++compared;
  }

  std::int64_t size, interval;
  std::deque<std::pair<double, double>> queued;  ///< of steps that a device may still work on
  double gradients = 0, noises = 0, weight = 0;
  NoiseScale last;
  int compared = 0;
};

struct Linear {
  explicit Linear(TrainerOptions o, std::int64_t samples = 4090, Context& where = context(network_contexts().back()))
      : graph(linear_network()),
        parameters(graph, where, o.seed),
        training(samples),
        trainer(graph, parameters, training, nullptr, nullptr, std::move(o)) {}
  Graph graph;
  Parameters parameters;
  LinearDataset training;
  Trainer trainer;
};

/// 64 steps in an epoch, the last of 58 samples in parts of 16, 16, 16 and 10.
TEST(NoiseScale, FindsTheKnownNoiseOfALinearModel) {
  Linear linear(still(64, 4, 1));
  NoiseOracle oracle(16, 1);
  linear.trainer.run({&oracle});
  EXPECT_EQ(oracle.compared, 256);
  EXPECT_NEAR(oracle.last.noise, LinearDataset::trace, 0.1 * LinearDataset::trace);
  EXPECT_NEAR(oracle.last.gradient, LinearDataset::gradient_square, 0.3 * LinearDataset::gradient_square);
  const double expected = LinearDataset::trace / LinearDataset::gradient_square;
  EXPECT_NEAR(oracle.last.samples(), expected, 0.3 * expected);
}

TEST(NoiseScale, IsMeasuredEverySoManySteps) {
  Linear linear(still(32, 2, 5), 333);
  NoiseOracle oracle(16, 5);
  linear.trainer.run({&oracle});
  EXPECT_EQ(oracle.compared, 4 * 11 - 4);
}

TEST(NoiseScale, IsMeasuredOfSamplesComputedOneByOne) {
  auto o = still(8, 1, 3);
  o.epochs = 1;
  o.exchange.reproducible = true;
  Linear linear(o, 61);
  NoiseOracle oracle(1, 3);
  linear.trainer.run({&oracle});
  EXPECT_EQ(oracle.compared, 6);
}

TEST(NoiseScale, IsMeasuredOnDevicesThatWorkOnTheirOwn) {
  const auto device = make_fake_async_context();
  auto o = still(16, 4, 2);
  o.epochs = 1;
  Linear linear(o, 130, *device);
  NoiseOracle oracle(4, 2);
  linear.trainer.run({&oracle});
  EXPECT_EQ(oracle.compared, 9 - 1);
}

/// The noise scales of all steps.
struct NoiseRecorder final : TrainObserver {
  std::vector<double> gradients, noises;
  double last_epoch = 0;
  void on_step(const RunState&, const StepRecord& r) override {
    if (!r.noise.known()) return;
    gradients.push_back(r.noise.gradient);
    noises.push_back(r.noise.noise);
  }
  void on_epoch(const RunState&, const EpochRecord& r, const Evaluation*) override { last_epoch = r.noise.noise; }
};

TrainerOptions measured(std::int64_t every = 2) {
  auto o = small_options();
  o.micro_batches = 2;
  o.noise_scale = every;
  return o;
}

TEST(NoiseScale, MeasuringChangesNoBits) {
  const auto device = make_fake_async_context();
  const std::string host = "kokkos";
  for (Context* where : {device.get(), &context(host)}) {
    Training with(small_network(), measured(), *where), without(small_network(), measured(0), *where);
    NoiseRecorder noise;
    with.trainer.run({&with.recorder, &noise});
    without.go();
    EXPECT_EQ(noise.noises.size(), 9u);
    EXPECT_EQ(noise.last_epoch, noise.noises.back());
    EXPECT_EQ(with.recorder.losses, without.recorder.losses);
    EXPECT_EQ(everything(with.parameters), everything(without.parameters));
    EXPECT_TRUE(without.trainer.state().observed.empty());
  }
}

TEST(NoiseScale, IsThatOfGradientsWithoutTheLossScale) {
  NoiseRecorder scaled, plain;
  auto o = measured(1);
  Training single(o, 16, 0);
  single.trainer.run({&plain});
  o.precision = Precision::fp16;
  Training half(o, 16, 0);
  half.trainer.run({&scaled});
  ASSERT_EQ(scaled.noises.size(), plain.noises.size());
  EXPECT_GT(half.trainer.executor().loss_scale().scale, 1000);
  EXPECT_NEAR(scaled.noises.front(), plain.noises.front(), 0.05 * plain.noises.front());
}

TEST(NoiseScale, GoesOnBitForBit) {
  const Folder folder;
  NoiseRecorder whole, first, second;
  Training all(measured());
  all.trainer.run({&whole});
  auto o = measured();
  o.max_steps = 5;
  o.checkpoints.folder = folder.path();
  Training begun(o);
  begun.trainer.run({&first});
  o.max_steps = -1;
  Training rest(o);
  rest.trainer.resume(folder.path());
  rest.trainer.run({&second});
  first.noises.insert(first.noises.end(), second.noises.begin(), second.noises.end());
  EXPECT_EQ(first.noises, whole.noises);
  EXPECT_EQ(rest.trainer.state().observed.at(noise_scale_entry), all.trainer.state().observed.at(noise_scale_entry));
}

TEST(NoiseScale, RefusesWhereItCannotBeMeasured) {
  const auto refusal = [](const TrainerOptions& o) { return message_of<InputError>([&] { Training training(o); }); };
  auto o = measured();
  o.micro_batches = 1;
  EXPECT_NE(refusal(o).find("on one rank in one pass"), std::string::npos) << refusal(o);
  o = measured();
  o.sync = SyncMode::parse("lag");
  EXPECT_NE(refusal(o).find("with synchronization lag"), std::string::npos) << refusal(o);
  o = measured();
  o.prune.rule = PruneRule::random;
  EXPECT_NE(refusal(o).find("with --prune-samples random"), std::string::npos) << refusal(o);
  EXPECT_NE(refusal(measured(-1)).find("every -1 steps"), std::string::npos);
}

TEST(NoiseScale, SaysWhatPays) {
  EXPECT_EQ(describe(NoiseScale{}, 64), "gradient noise scale: no step was measured");
  EXPECT_NE(describe({.gradient = -1, .noise = 3}, 64).find("not known yet"), std::string::npos);
  const auto text = describe({.gradient = 2, .noise = 512}, 64);
  EXPECT_NE(text.find("256 samples. A batch of 64 needs 5 times the fewest possible steps"), std::string::npos) << text;
  EXPECT_NE(text.find("1.25 times the fewest possible samples"), std::string::npos) << text;
  RunState state;
  add_measurement(state, {});
  EXPECT_FALSE(noise_scale(state).known());
  EXPECT_FALSE(measured_noise({.parts = 1, .whole = 1, .part_weights = 16}, 4, 4).known()) << "a single part";
  EXPECT_FALSE(measured_noise({.parts = 1, .whole = 1, .part_weights = 8, .finite = false}, 4, 4).known());
}

}  // namespace
}  // namespace keelson::testing
