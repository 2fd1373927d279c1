#include "engine/execute/choose_precision.hpp"

#include <fmt/ranges.h>

#include <optional>

#include "engine/execute/executor.hpp"
#include "engine/tune/slowest_rank_timer.hpp"
#include "engine/tune/tuning_ranks.hpp"

namespace keelson {

namespace {

Precision of_type(DType t) {
  return t == DType::bf16 ? Precision::bf16 : t == DType::f16 ? Precision::fp16 : Precision::fp32;
}

/// Steps in one of several precisions.
class PrecisionTrial {
 public:
  PrecisionTrial(std::vector<Precision> precisions, const Graph& graph, Context& context, const PlanOptions& options)
      : precisions_(std::move(precisions)), graph_(graph), context_(context), options_(options) {
    options_.optimizer = nullptr;  // the same for all
  }

  /// The plan's hash: equal for two precisions if the device has no kernels for one of them.
  std::uint64_t hash(std::size_t i) {
    make_plan(i);
    return plan_->hash();
  }
  /// A step. All ranks call it.
  bool run(std::size_t i) {
    if (i != made_ || !executor_) {
      if (i != made_) make_plan(i);
      executor_.emplace(*plan_, *parameters_);
    }
    executor_->forward({});
    if (options_.training) {
      executor_->backward();
      executor_->finish_exchange();
    }
    context_.device().fence();
    return true;
  }

 private:
  /// One at a time is in memory.
  void make_plan(std::size_t i) {
    executor_.reset(), plan_.reset();
    parameters_.emplace(graph_, context_, 1);
    options_.precision = precisions_[i];
    plan_.emplace(graph_, *parameters_, options_);
    made_ = i;
  }

  std::vector<Precision> precisions_;
  const Graph& graph_;
  Context& context_;
  PlanOptions options_;
  std::size_t made_ = static_cast<std::size_t>(-1);
  std::optional<Parameters> parameters_;
  std::optional<Plan> plan_;
  std::optional<Executor> executor_;
};

/// Of the way in which steps are measured, part of the key. Raise the number when older answers must not be used.
constexpr int precision_version = 2;

/// Of the file of choices: as that of the device's other choices, whose lock is taken by those who make the plans that
/// are measured.
std::string file_name(Device& device) {
  const Autotuner* const autotuner = device.autotuner();
  return "precision-" + (autotuner ? autotuner->file().stem().string() : device.describe());
}

SlowestRankTimer::Group group_of(Communicator* ranks) {
  if (!ranks) return {[] {}, [](double*, std::size_t) {}};
  return {[ranks] { ranks->barrier(); },
          [ranks](double* values, std::size_t count) { ranks->allreduce(values, count, Reduction::max); }};
}

/// Chooses fp32 or `low`.
Precision faster(Precision low, const Graph& graph, Context& context, const PlanOptions& options) {
  // Stages send values to each other in the steps that are measured.
  Communicator* const ranks = options.has_stages() ? &options.grid->world() : options.communicator();
  std::int64_t off = tuning_is_off();
  if (ranks) ranks->on_host().broadcast(&off, sizeof(off), 0);
  const Precision rule_of_thumb = of_type(context.device().preferred_half());
  if (off) return rule_of_thumb;
  const std::vector<Precision> both{rule_of_thumb, rule_of_thumb == low ? Precision::fp32 : low};
  PrecisionTrial trial(both, graph, context, options);
  const std::uint64_t hashes[] = {trial.hash(0), trial.hash(1)};
  std::int64_t differ = hashes[0] != hashes[1];  // without such kernels on any rank there is nothing to time
  if (ranks) ranks->allreduce(&differ, 1, Reduction::max);
  if (!differ) return Precision::fp32;
  Autotuner autotuner(file_name(context.device()), std::make_unique<SlowestRankTimer>(group_of(ranks), 1, 0),
                      tuning_ranks(ranks));
  const std::string key = fmt::format("precision of a step v{}, plans {:016x} and {:016x}, {} ranks", precision_version,
                                      hashes[0], hashes[1], ranks ? ranks->size() : 1);
  const auto chosen =
      autotuner.choose(key, fmt::format("{} threads", context.device().current_instance().concurrency()),
                       {std::string(to_string(both[0])), std::string(to_string(both[1]))},
                       {[&](std::size_t i) { return trial.run(i); }});
  return both[chosen.value()];
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
