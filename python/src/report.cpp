#include "report.hpp"

#include <fmt/format.h>

#include <mutex>

#include "apps/common/machine.hpp"
#include "engine/base/error.hpp"
#include "engine/train/metrics/loss_metric.hpp"

namespace keelson::python {
namespace fs = std::filesystem;
namespace {

/// The lock of the trainer of this process that writes into a folder, by the folder's canonical path.
struct Holders {
  std::mutex mutex;
  std::map<fs::path, std::weak_ptr<app::FolderLock>> locks;
};

Holders& holders() {
  static Holders all;
  return all;
}

/// Calls work(). Errors of locks name the programs' option --out.
template <class Work>
auto with_own_name(const Work& work) {
  try {
    return work();
  } catch (const InputError& e) {
    std::string text = e.what();
    if (const auto option = text.find("--out"); option != std::string::npos) text.replace(option, 5, "report =");
    refuse("{}", text);
  }
}

}  // namespace

Report::Report(const fs::path& folder, const Trainer& trainer, app::ReportInput input)
    : folder_{folder}, trainer_(trainer), input_(std::move(input)) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) refuse("report = '{}': the folder cannot be made ({}). Give another one", folder.string(), e.message());
  folder_.path = fs::canonical(folder);
  Holders& all = holders();
  const std::lock_guard guard(all.mutex);
  if (!all.locks[folder_.path].lock()) with_own_name([&] { app::FolderLock::check(folder_.path); });
}

void Report::on_start(const RunState& s, const fs::path& resumed_from) {
  if (!lock_) {
    Holders& all = holders();
    const std::lock_guard guard(all.mutex);
    if (const auto held = all.locks[folder_.path].lock()) {  // another trainer's
      lock_ = std::make_shared<app::FolderLock>(folder_.path, held->token());
    } else {
      lock_ = with_own_name([&] { return std::make_shared<app::FolderLock>(folder_.path); });
    }
    all.locks[folder_.path] = lock_;
  }
  if (!holds()) return;
  const bool again = s.step < last_step_;  // also from the same checkpoint
  if (!recorder_ || resumed_from != resumed_from_ || again) {
    const auto every = std::max<std::int64_t>(1, trainer_.steps_per_epoch() / 100);
    recorder_.emplace(folder_, *lock_, every, trainer_, input_, nullptr);
    recorder_->on_start(s, resumed_from);
  }
  resumed_from_ = resumed_from;
  last_step_ = s.step;
}

bool Report::holds() const {
  Holders& all = holders();
  const std::lock_guard guard(all.mutex);
  return lock_ && all.locks[folder_.path].lock() == lock_;
}

void Report::on_step(const RunState& s, const StepRecord& r) {
  last_step_ = s.step;
  if (recorder_ && holds()) recorder_->on_step(s, r);
}
void Report::on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) {
  if (recorder_ && holds()) recorder_->on_epoch(s, r, validation);
}
void Report::on_checkpoint(const RunState& s, const fs::path& path, bool best) {
  if (recorder_ && holds()) recorder_->on_checkpoint(s, path, best);
}
void Report::on_network_change(const RunState& s, const Graph& graph, const std::string& text) {
  if (recorder_ && holds()) recorder_->on_network_change(s, graph, text);
}
void Report::on_ranks_lost(const RunState& s, const Recovery& r) {
  if (recorder_ && holds()) recorder_->on_ranks_lost(s, r);
}
void Report::on_set_aside(const RunState& s, const fs::path& folder) {
  if (recorder_ && holds()) recorder_->on_set_aside(s, folder);
}
void Report::on_stop(const RunState& s, StopReason reason) {
  if (recorder_ && holds()) recorder_->on_stop(s, reason);
}

app::ReportInput report_input(const Trainer& trainer, const Graph& graph, const TrainerOptions& o,
                              const Dataset& training, const std::string& devices) {
  app::ReportInput r;
  r.title = o.network;
  r.subtitle = fmt::format("{} parameters, trained on {}", graph.parameter_count(), training.describe());
  r.status = "running";
  r.metric = o.evaluation.metrics.empty() ? std::make_shared<LossMetric>() : o.evaluation.metrics[0];
  r.target = o.target;
  r.unit = o.unit;
  r.machine = app::describe_machine();
  r.machine.emplace_back("Ranks", fmt::format("{}", trainer.state().world_size));
  r.machine.emplace_back("Devices", devices);
  r.machine.emplace_back("Keelson", KEELSON_VERSION);
  for (const auto& [key, value] : o.config)
    if (!value.empty()) r.configuration.emplace_back(key, value);
  r.plan_note = "Milliseconds are medians over a few profiled steps of rank 0; empty: not measured.";
  return r;
}

}  // namespace keelson::python
