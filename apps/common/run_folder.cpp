#include "apps/common/run_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "apps/common/ensemble_file.hpp"
#include "apps/common/machine.hpp"
#include "apps/common/report/sample_list.hpp"
#include "apps/common/time_table.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/ranks.hpp"
#include "engine/grow/deepen.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

/// Why nothing can be written to `path`, which need not exist; empty: `path` can be written.
std::string why_unwritable(const fs::path& path) {
  fs::path there = fs::absolute(path).lexically_normal();
  while (!there.empty() && !fs::exists(there) && there != there.parent_path()) there = there.parent_path();
  if (!fs::is_directory(there)) return fmt::format("{} is not a folder", there.string());
  if (::access(there.c_str(), W_OK | X_OK) != 0) return fmt::format("{}: {}", there.string(), std::strerror(errno));
  const auto probe = (there / ".keelson-probe-XXXXXX").string();
  std::vector<char> name(probe.begin(), probe.end());
  name.push_back('\0');
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return fmt::format("{}: {}", there.string(), std::strerror(errno));
  ::close(fd);
  ::unlink(name.data());
  return "";
}

}  // namespace

bool RunFolder::holds(const fs::path& checkpoint) const {
  if (checkpoint.empty()) return false;
  const fs::path there = checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
  std::error_code e;
  return fs::equivalent(there, path, e) || fs::equivalent(there, checkpoints(), e);
}

void RunFolder::require_free(bool overwrite, const fs::path& resumed_from) const {
  std::error_code e;
  const CheckpointFolder found(checkpoints(), 1);
  const bool holds_run = !found.list().empty() || fs::exists(found.best(), e) || fs::exists(report(), e);
  if (overwrite) return;
  if (EnsembleFile::exists(path) && EnsembleFile::has_checkpoints(path))
    refuse(
        "--out {}: holds an ensemble; continue it with --resume, replace it with --overwrite, or choose another folder",
        path.string());
  if (!holds_run) return;
  if (!resumed_from.empty())
    refuse(
        "--out {}: holds another run than that of {}, which --resume names. Expected a folder without a run, or the "
        "folder of that run: leave --out out to go on there, choose another folder, or replace this run with "
        "--overwrite",
        path.string(), resumed_from.string());
  refuse(
      "--out {}: holds a run already; continue it with --resume, replace it with --overwrite, or choose another "
      "folder",
      path.string());
}

void RunFolder::check(Communicator& world, const fs::path& resumed_from, bool overwrite) const {
  on_first_rank(&world, [&] {
    if (path.empty()) refuse("--out: found an empty name, expected a folder");
    if (const auto why = why_unwritable(path); !why.empty())
      refuse("--out {}: cannot be written ({}); choose a folder that can", path.string(), why);
    FolderLock::check(path);
    for (const auto& file : {metrics(), report()})
      if (std::error_code e; fs::exists(file, e) && !fs::is_regular_file(file, e))
        refuse("--out {}: holds {}, which is no regular file: remove it, or choose another folder", path.string(),
               file.filename().string());
    if (!holds(resumed_from)) require_free(overwrite, resumed_from);
  });
}

void RunFolder::clear() const {
  // Only files that a run writes: the user may keep other files here.
  const CheckpointFolder old(checkpoints(), 1);
  for (const auto& checkpoint : old.list()) fs::remove(checkpoint);
  for (const auto& file : {old.best(), metrics(), report(), samples(), EnsembleFile::path(path)}) fs::remove(file);
}

void RunFolder::prepare(bool goes_on) const {
  std::error_code e;
  if (!goes_on) clear();
  fs::create_directories(checkpoints(), e);
  if (e) fail("cannot make the folder {}: {}", checkpoints().string(), e.message());
  remove_temporaries(path);
}

std::vector<ReportInput::Target> report_targets(const TargetMetrics& m) {
  const auto &predicted = m.predictions->predicted(), &truth = m.predictions->truth();
  const auto errors = m.metric->values(), baseline = m.baseline->values(), absolute = m.absolute->values();
  std::vector<ReportInput::Target> targets;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    const auto& unit = m.metric->targets().at(t);
    ReportInput::Target out;
    out.name = unit.name;
    out.error = errors[t];
    out.baseline = baseline.empty() ? 0 : baseline[t];
    out.physical = std::abs(unit.scale) * absolute[t];
    for (std::size_t i = t; i < truth.size(); i += errors.size()) {
      out.truth.push_back(unit.scale * truth[i] + unit.offset);
      out.predicted.push_back(unit.scale * predicted[i] + unit.offset);
    }
    targets.push_back(std::move(out));
  }
  return targets;
}

namespace {

/// The median; empties the list. 0 for an empty one.
double take_median(std::vector<double>& values) {
  std::vector<double> all;
  std::swap(all, values);
  if (all.empty()) return 0;
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2];
}

}  // namespace

void RunRecorder::on_start(const RunState& s, const fs::path& resumed_from) {
  start_ = {resumed_from.empty() ? "start" : "resume", s.step, resumed_from.string()};
  topology_ = s.topology;
  if (resumed_from.empty()) open();
}

void RunRecorder::open() {
  if (file_) return;
  lock_.require();
  file_ = std::make_unique<MetricsFile>(folder_.metrics(), start_.event == "start" ? -1 : start_.step, report_.unit);
  file_->write(start_);
}

void RunRecorder::on_step(const RunState&, const StepRecord& r) {
  open();
  seconds_ += r.seconds;
  step_seconds_.push_back(r.seconds.total());
  units_ += r.rate * r.seconds.total();
  if (r.step % every_ != 0) return;
  auto record = r;
  record.seconds = seconds_;
  record.rate = seconds_.total() > 0 ? units_ / seconds_.total() : 0;
  write(record);
  seconds_ = {};
  units_ = 0;
}

void RunRecorder::on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) {
  write(r);
  const double step = take_median(step_seconds_);
  if (step_before_)
    write(EventRecord{
        "step time", s.step,
        fmt::format("{:.3g} ms a step, {:.3g} ms before the network changed", 1e3 * step, 1e3 * *step_before_)});
  step_before_.reset();
  last_step_ = step;
  if (validation && targets_) report_.targets = report_targets(*targets_);
  if (validation && sections_) report_.sections = sections_();
  report_.status = "running";
  write_report();
}

void RunRecorder::on_checkpoint(const RunState& s, const fs::path& path, bool best) {
  write(EventRecord{best ? "best" : "checkpoint", s.step, path.filename().string()});
}

/// Copies the metrics to the folder of the checkpoints that were moved: on_start() removes records of later steps.
void RunRecorder::on_set_aside(const RunState&, const fs::path& folder) {
  lock_.require();
  std::error_code e;
  if (!fs::is_regular_file(folder_.metrics(), e)) return;
  RunFolder aside{folder};
  if (!fs::copy_file(folder_.metrics(), aside.metrics(), e) || e)
    fail("cannot copy {} to {}: {}", folder_.metrics().string(), aside.metrics().string(), e.message());
}

/// Takes over from a rank 0 that was lost. Its last records may be missing; the record of the last epoch is written
/// here.
void RunRecorder::on_take_over(const RunState& s, const EpochRecord* last_epoch) {
  const auto before = read_metrics(folder_.metrics());
  topology_ = s.topology;
  file_ = std::make_unique<MetricsFile>(folder_.metrics(), s.step, report_.unit);
  if (last_epoch && (before.epochs.empty() || before.epochs.back().epoch < last_epoch->epoch)) write(*last_epoch);
}

void RunRecorder::on_network_change(const RunState& s, const Graph& graph, const std::string& text) {
  const auto size = [](const Graph& g) { return NetworkSize{g.parameter_count(), Topology(g).widths()}; };
  const auto size_before = [&]() -> NetworkSize {
    try {
      return size(with_topology(graph, Topology::parse(topology_)));
    } catch (const InputError&) {  // a change of a user's own can make a network that has no such form
      return {};
    }
  };
  write(EventRecord{"network change", s.step, text, NetworkRecord{s.epoch, size_before(), size(graph)}});
  topology_ = s.topology;
  step_before_ = last_step_;
}

void RunRecorder::on_ranks_lost(const RunState&, const Recovery& r) {
  // If training goes back again, records of later steps are removed.
  write(EventRecord{"ranks lost", r.restarted_from.value_or(r.step), r.to_string()});
}

void RunRecorder::on_stop(const RunState& s, StopReason reason) {
  if (!file_) return;
  if (trainer_.samples_read()) write(EventRecord{"samples read", s.step, describe(*trainer_.samples_read())});
  write(EventRecord{"stop", s.step, to_string(reason)});
  report_.status = to_string(reason);
  report_.times = trainer_.run_times();
  if (trainer_.pruning().enabled())
    write_atomically(folder_.samples(), samples_csv(trainer_.pruning(), trainer_.training_data(), s.epoch));
  write_report();
}

void RunRecorder::write_report() {
  lock_.require();
  auto input = report_;
  input.history = read_metrics(folder_.metrics());
  input.batch = trainer_.state().global_batch;
  if (trainer_.pruning().enabled())
    input.sections.push_back(samples_section(trainer_.pruning(), trainer_.training_data()));
  input.plan = trainer_.executor().rows();
  const auto mb = [](double bytes) { return fmt::format("{:.0f} MB", bytes / 1e6); };
  input.machine.emplace_back("Memory of rank 0",
                             fmt::format("{} at most, {} of it activations and gradients", mb(peak_resident_bytes()),
                                         mb(static_cast<double>(trainer_.executor().plan().arena_bytes()))));
  write_atomically(folder_.report(), render_report(input));
}

}  // namespace keelson::app
