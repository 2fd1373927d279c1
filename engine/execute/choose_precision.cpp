#include "engine/execute/choose_precision.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "engine/base/algorithm_chooser.hpp"
#include "engine/base/detail/choice_cache.hpp"
#include "engine/base/verbose.hpp"
#include "engine/execute/executor.hpp"

namespace keelson {

namespace {

/// Seconds of the fastest of a few steps.
double time_steps(Executor& executor, Device& device, Communicator* communicator, bool training) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {  // the first step is for warm-up
    if (communicator) communicator->barrier();
    const auto start = Clock::now();
    executor.forward({});
    if (training) {
      executor.backward();
      executor.finish_exchange();
    }
    device.fence();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) fastest = std::min(fastest, seconds);
  }
  if (communicator) communicator->allreduce(&fastest, 1, Reduction::max);
  return fastest;
}

Precision of_type(DType t) {
  return t == DType::bf16 ? Precision::bf16 : t == DType::f16 ? Precision::fp16 : Precision::fp32;
}

/// Measures steps with two plans.
class PrecisionTrial {
 public:
  PrecisionTrial(Precision low, const Graph& graph, Context& context, const PlanOptions& options)
      : both_{Precision::fp32, low}, graph_(graph), context_(context), options_(options) {
    options_.optimizer = nullptr;  // the optimizer's work is the same in both plans
  }

  /// The hashes of both plans; equal if the device has no kernels for `low`.
  std::array<std::uint64_t, 2> hashes() {
    std::array<std::uint64_t, 2> hashes{};
    for (std::size_t i = 0; i < 2; ++i) {
      Parameters parameters(graph_, context_, 1);
      hashes[i] = plan_of(i, parameters).hash();
    }
    return hashes;
  }
  /// The faster precision. Collective.
  Precision faster() {
    std::array<double, 2> seconds{};
    for (std::size_t i = 0; i < 2; ++i) {
      Parameters parameters(graph_, context_, 1);
      const Plan plan = plan_of(i, parameters);
      Executor executor(plan, parameters);
      seconds[i] = time_steps(executor, context_.device(), options_.communicator(), options_.training);
    }
    const Communicator* const ranks = options_.communicator();
    if (verbose() && (!ranks || ranks->rank() == 0))
      fmt::print(stderr, "keelson: --precision auto: a step takes {:.3f} ms in {}, {:.3f} ms in {}\n", seconds[0] * 1e3,
                 to_string(both_[0]), seconds[1] * 1e3, to_string(both_[1]));
    return both_[seconds[1] < seconds[0] ? 1 : 0];
  }

 private:
  Plan plan_of(std::size_t i, Parameters& parameters) {
    options_.precision = both_[i];
    return Plan(graph_, parameters, options_);
  }

  std::array<Precision, 2> both_;
  const Graph& graph_;
  Context& context_;
  PlanOptions options_;
};

/// Version of the measurement, part of the key. Increase it when older answers must not be used.
constexpr int precision_version = 1;

/// The file of choices. It differs from the file of the device's other choices, since making the measured plans takes
/// that file's lock.
std::filesystem::path file_of(Device& device) {
  const AlgorithmChooser* const chooser = device.chooser();
  if (!chooser) return choice_file("precision-" + device.describe());
  auto file = chooser->file();
  return file.empty() ? file : file.replace_filename("precision-" + file.filename().string());
}

/// The first rank looks into the file of choices. If the file has no answer, the first rank asks the other ranks to
/// measure with it, and stores the result.
Precision known_or_measured(const std::string& key, const std::vector<Precision>& both, PrecisionTrial& trial,
                            Context& context, Communicator* ranks) {
  const auto tell = [&](std::int64_t word) {
    if (ranks) ranks->on_host().broadcast(&word, sizeof(word), 0);
    return word;
  };
  constexpr std::int64_t measure = -1;
  if (ranks && ranks->rank() != 0) {
    std::int64_t word = tell(0);
    for (; word == measure; word = tell(0)) trial.faster();
    return both[static_cast<std::size_t>(word)];
  }
  const auto place = [&](const std::string& name) {
    return std::find_if(both.begin(), both.end(), [&](Precision p) { return name == to_string(p); });
  };
  ChoiceCache cache(file_of(context.device()));
  const std::string chosen = cache.choose(
      key, [&](const std::string& name) { return place(name) != both.end(); },
      [&] {
        tell(measure);
        return std::string(to_string(trial.faster()));
      });
  return both[static_cast<std::size_t>(tell(place(chosen) - both.begin()))];
}

/// Chooses fp32 or `low`.
Precision faster(Precision low, const Graph& graph, Context& context, const PlanOptions& options) {
  Communicator* const ranks = options.communicator();
  std::int64_t off = tuning_is_off();
  if (ranks) ranks->on_host().broadcast(&off, sizeof(off), 0);
  if (off) return of_type(context.device().preferred_half());
  PrecisionTrial trial(low, graph, context, options);
  const auto hashes = trial.hashes();
  std::int64_t differ = hashes[0] != hashes[1];  // if no rank has such kernels, there is nothing to measure
  if (ranks) ranks->allreduce(&differ, 1, Reduction::max);
  if (!differ) return Precision::fp32;
  const std::string key =
      fmt::format("precision of a step v{}, plans {:016x} and {:016x}, {} ranks, {} threads", precision_version,
                  hashes[0], hashes[1], ranks ? ranks->size() : 1, context.device().current_instance().concurrency());
  return known_or_measured(key, {Precision::fp32, low}, trial, context, ranks);
}

}  // namespace

Precision choose_precision(const std::string& word, const Graph& graph, Context& context, const PlanOptions& options) {
  const DType low = context.device().preferred_half();
  if (word == "default") return of_type(low);
  if (word == "auto") return faster(low == DType::f32 ? Precision::bf16 : of_type(low), graph, context, options);
  for (const auto p : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16})
    if (word == to_string(p)) return p;
  refuse("unknown precision {}: expected one of {}", word, fmt::join(precisions(), ", "));
}

}  // namespace keelson
