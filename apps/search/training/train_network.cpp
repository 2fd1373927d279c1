#include "apps/search/training/train_network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/base/philox.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/metrics/accuracy.hpp"
#include "engine/train/trainer.hpp"
#include "engine/tune/autotuner.hpp"
#include "search/genome/design.hpp"
#include "search/run/worker.hpp"

namespace keelson::search {
namespace {

/// Collects the times of a training's steps.
class StepTimes final : public TrainObserver {
 public:
  void on_step(const RunState&, const StepRecord&) override {
    const auto now = std::chrono::steady_clock::now();
    if (begun_) milliseconds_.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
    begun_ = true;
    last_ = now;
  }
  double median() {
    if (milliseconds_.empty()) return 0;
    const auto middle = milliseconds_.begin() + std::ssize(milliseconds_) / 2;
    std::nth_element(milliseconds_.begin(), middle, milliseconds_.end());
    return *middle;
  }

 private:
  bool begun_ = false;
  std::chrono::steady_clock::time_point last_;
  std::vector<double> milliseconds_;
};

std::string name_of(std::int64_t id) { return fmt::format("search-{:06}", id); }

std::filesystem::path folder_of_network(const std::filesystem::path& search, std::int64_t id) {
  return search / "networks" / fmt::format("{:06}", id);
}

std::int64_t batch_of(const TrainingPlan& plan, const Dataset& data, int ranks) {
  const auto most = std::max<std::int64_t>(1, data.size() / ranks);
  return std::min(most, std::max<std::int64_t>(1, plan.batch / ranks));
}

MetricOptions metrics_of(const Settings& settings) {
  MetricOptions metrics;
  if (settings.space.classes) metrics.metrics.push_back(std::make_shared<Accuracy>());
  return metrics;
}

/// `load`: called when the parameters have memory.
Result judged(const Graph& graph, Parameters& parameters, const Dataset& data, Communicator* ranks,
              const Settings& settings, const std::function<void()>& load = {}) {
  constexpr std::int64_t most_batch = 256;
  EvaluatorOptions options;
  options.batch = std::min(most_batch, std::max<std::int64_t>(1, data.size() / (ranks == nullptr ? 1 : ranks->size())));
  options.evaluation = metrics_of(settings);
  Evaluator evaluator(graph, parameters, data, ranks, options);
  if (load) load();
  const Evaluation found = evaluator.run();
  Result result;
  result.loss = found.loss;
  result.metric = settings.space.classes ? found.metric : found.loss;
  return result;
}

/// Makes the trainer begin with the weights and the optimizer's state of another run, but with its own seed and number
/// of epochs.
void begin_with(Trainer& trainer, Parameters& parameters, const TrainingRun& run, const TrainerOptions& options,
                std::int64_t epochs_done, Communicator* ranks) {
  const CheckpointReader reader(run.source, false, ranks);
  RunState state = reader.load(name_of(run.source_id), parameters, options.moments());
  state.network = options.network;
  state.seed = options.seed;
  state.epoch = epochs_done;
  const CheckpointCopy copy = copy_run(state, parameters, options.moments());
  trainer.resume(CheckpointReader(&copy, run.source, ranks));
}

/// Folders of rungs, the latest first.
std::vector<std::filesystem::path> rung_folders(const std::filesystem::path& member) {
  std::vector<std::filesystem::path> folders;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(member, none))
    if (entry.path().filename().string().starts_with("rung-")) folders.push_back(entry.path());
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

}  // namespace

std::filesystem::path folder_of_rung(const std::filesystem::path& member, int rung) {
  return member / fmt::format("rung-{:06}", rung);
}

std::filesystem::path newest_checkpoint(const std::filesystem::path& folder) {
  const auto all = CheckpointFolder(folder, 1).list();
  if (!all.empty()) return all.back();
  for (const auto& rung : rung_folders(folder))
    if (const auto newest = newest_checkpoint(rung); !newest.empty()) return newest;
  return {};
}

std::filesystem::path checkpoints_of_last(const std::filesystem::path& search, const Individual& i,
                                          const Settings& settings) {
  const auto folder = folder_of_network(search, i.id);
  return settings.trains_population() && i.last() != nullptr ? folder_of_rung(folder, i.last()->rung) : folder;
}

std::uint64_t seed_of(const Settings& settings, std::int64_t id) {
  const auto bits = philox::block(settings.seed, philox::stream_of("network"), static_cast<std::uint64_t>(id));
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

std::filesystem::path NetworkTrainer::checkpoints_of(std::int64_t id) const { return folder_of_network(folder, id); }

TrainerOptions NetworkTrainer::options_of(std::int64_t id, const Genome& genome, const Dataset& training) const {
  const TrainingPlan plan = training_of(genome, settings.space, settings.epochs);
  TrainerOptions t;
  t.network = name_of(id);
  t.texts["genome"] = to_json(genome, settings.space);
  t.texts["scaling"] = data.scaling();
  t.batch = batch_of(plan, training, ranks == nullptr ? 1 : ranks->size());
  t.seed = seed_of(settings, id);
  t.optimizer = plan.optimizer;
  t.schedule = plan.schedule;
  t.interrupted = interrupted;
  return t;
}

Result NetworkTrainer::train(std::int64_t id, const Genome& genome, int rung) const {
  return train({.id = id, .genome = genome, .rung = rung, .data = data.training(), .folder = checkpoints_of(id)});
}

Result NetworkTrainer::train(const TrainingRun& run) const {
  const Autotuner::RulesOfThumb the_same_kernels_each_time(context.device().autotuner());
  const Graph graph = network_of(run.genome, settings.space);
  const auto epochs_after = [&](int rung) { return static_cast<std::int64_t>(std::llround(settings.epochs_of(rung))); };
  Parameters parameters(graph, context, seed_of(settings, run.id));
  TrainerOptions t = options_of(run.id, run.genome, run.data);
  t.epochs = epochs_after(run.rung);
  t.checkpoints = {.folder = run.folder, .keep = 1, .epochs = t.epochs};
  const auto checkpoint = newest_checkpoint(run.folder);
  StepTimes times;
  StopReason reason = StopReason::epochs_done;
  try {
    Trainer trainer(graph, parameters, run.data, nullptr, ranks, t);
    if (!checkpoint.empty())
      trainer.resume(checkpoint);
    else if (!run.source.empty())
      begin_with(trainer, parameters, run, t, epochs_after(run.rung - 1), ranks);
    reason = trainer.run({&times}).reason;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const RanksLost&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const Error& e) {
    if (std::string(e.what()).find("not finite") != std::string::npos) throw Diverged(e.what());
    throw;
  }
  if (reason == StopReason::interrupted) throw Interrupted("interrupted");
  Result result;
  try {
    result = judged(graph, parameters, data.validation(), ranks, settings);
  } catch (const Error& e) {
    throw Diverged(e.what());
  }
  result.rung = run.rung;
  result.step_ms = times.median();
  return result;
}

Result NetworkTrainer::evaluate(std::int64_t id, const Genome& genome, const Dataset& data_to_judge) const {
  const auto checkpoint = newest_checkpoint(checkpoints_of(id));
  if (checkpoint.empty()) refuse("{}: network {} has no checkpoint here", checkpoints_of(id).string(), id);
  return evaluate(checkpoint, id, genome, data_to_judge);
}

Result NetworkTrainer::evaluate(const std::filesystem::path& checkpoint, std::int64_t id, const Genome& genome,
                                const Dataset& data_to_judge) const {
  const Autotuner::RulesOfThumb the_same_kernels_each_time(context.device().autotuner());
  const Graph graph = network_of(genome, settings.space);
  Parameters parameters(graph, context, seed_of(settings, id));
  const CheckpointReader reader(checkpoint, false, ranks);
  return judged(graph, parameters, data_to_judge, ranks, settings,
                [&] { reader.load(name_of(id), parameters, std::nullopt); });
}

}  // namespace keelson::search
