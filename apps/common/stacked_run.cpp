#include "apps/common/stacked_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/common/console.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/background_thread.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/graph/topology.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson::app {
namespace fs = std::filesystem;

/// A member with its files.
struct StackedRun::Entry {
  Member& member;
  StackedMember stacked;
  TrainerOptions t;
  RunFolder folder;
  fs::path resumed_from;
  ReportInput report;
  std::optional<FolderLock> lock;
  std::optional<MetricsFile> metrics;
  /// Of the last epoch: the copy that is being written, and the path that it gets.
  std::optional<CheckpointCopy> copy;
  fs::path written;
  double seconds = 0;        ///< RunState::seconds at the end of the epoch before
  bool reached = false;      ///< the target
  std::int64_t epochs = -1;  ///< of the last record
};

struct StackedRun::Shared {
  TrainerOptions t;
  std::uint64_t data = 0;  ///< Dataset::digest() of the training data
  std::shared_ptr<const Graph> graph;
  int keep = 2;
  std::int64_t every = 1;  ///< --checkpoint-every
};

StackedRun::StackedRun(std::size_t members, int rank)
    : expected_(members), rank_(rank), speaker_(rank == 0 ? "" : fmt::format("rank {}: ", rank)) {}

StackedRun::~StackedRun() {
  if (writer_.joinable()) writer_.join();
}

void StackedRun::check(const TrainingOptions& o, const TrainerOptions& t, bool apoptosis, bool grows,
                       const std::string& precision) {
  const std::array<std::pair<bool, const char*>, 11> others{{
      {t.max_steps >= 0, "--max-steps"},
      {o.checkpoint_steps > 0, "--checkpoint-steps"},
      {t.micro_batches > 1, "--micro-batches"},
      {t.noise_scale > 0, "--noise-scale"},
      {t.sync.kind != SyncMode::Kind::synchronous, "--sync"},
      {t.prune.enabled(), "--prune-samples"},
      {apoptosis, "--apoptosis"},
      {grows, "--grow"},
      {o.recompute, "--recompute"},
      {o.exchange.reproducible, "--reproducible"},
      {o.cache.memory != 0 || o.cache.disk != 0, "--cache-memory and --cache-disk"},
  }};
  for (const auto& [given, name] : others)
    if (given) refuse("{} with --stack: members that are trained together cannot have it; leave one of them out", name);
  if (precision == "auto" || precision == "fp16")
    refuse("--precision {} with --stack: expected fp32 or bf16, or no --precision", precision);
}

const DeviceSession& StackedRun::open(const DeviceOptions& o, Launch& launch) {
  if (!session_) session_.emplace(open_device(o, launch));
  return *session_;
}

StackedMember StackedRun::stacked(const TrainingTask& task, const TrainerOptions& t, const Member& member) const {
  const bool same = shared_->graph && member.record.options.empty();
  return {.name = t.network,
          .graph = same ? shared_->graph : std::make_shared<const Graph>(with_widths(task.graph, Topology(task.graph))),
          .optimizer = same ? shared_->t.optimizer : t.optimizer,
          .schedule = t.schedule,
          .seed = t.seed,
          .epochs = t.epochs,
          .patience = 0,
          .bag = t.bag,
          .metrics = t.evaluation.metrics};
}

ExitCode StackedRun::add(const TrainingTask& task, const TrainerOptions& t, const RunFolder& folder,
                         const fs::path& resumed_from, ReportInput report, const TrainingOptions& o, Launch& launch) {
  Member& member = *launch.member;
  if (!shared_) {
    shared_ = std::make_unique<Shared>();
    shared_->t = t;
    shared_->data = task.training.digest();
    shared_->keep = o.keep;
    shared_->every = o.checkpoint_every;
  }
  if (t.batch != shared_->t.batch || t.precision != shared_->t.precision)
    refuse(
        "--stack: batches of {} in {}, but of {} in {} before: members that are trained together have the same; "
        "leave --stack out",
        t.batch, to_string(t.precision), shared_->t.batch, to_string(shared_->t.precision));
  if (task.training.digest() != shared_->data)
    refuse(
        "--stack: other samples than those of the members before: members that are trained together have the same; "
        "leave --stack out");
  auto& e = *entries_.emplace_back(
      new Entry{.member = member, .stacked = stacked(task, t, member), .t = t, .folder = folder});
  if (member.record.options.empty()) shared_->graph = e.stacked.graph;
  if (member.record.options.empty()) shared_->t.optimizer = e.stacked.optimizer;
  e.resumed_from = resumed_from;
  e.report = std::move(report);
  e.lock.emplace(folder.path);
  folder.prepare(folder.holds(resumed_from));
  if (entries_.size() < expected_) return ExitCode::done;
  if (task.in_memory)
    member.data->decline();
  else
    member.data->open(task.training, task.validation);
  return train_all(task.in_memory ? task.training : member.data->training(),
                   task.in_memory ? task.validation : member.data->validation(), launch);
}

StackedOptions StackedRun::stacked_options(Launch& launch, const Dataset* validation) {
  const TrainerOptions& t = shared_->t;
  return {.batch = t.batch,
          .precision = t.precision,
          .unit = t.unit,
          .seed = launch.member->ensemble_seed,
          .shuffle = t.shuffle,
          .transform = t.transform,
          .threads = t.threads,
          .prediction = t.evaluation.prediction,
          .target = t.evaluation.target,
          .validation_units = validation ? t.evaluation.units : 0,
          .go_on = [this](const StackedProgress& p) { return goes_on(p); }};
}

void StackedRun::resume_members(StackedTraining& stack) {
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    Entry& e = *entries_[m];
    if (!e.resumed_from.empty()) {
      const CheckpointReader checkpoint(e.resumed_from, false, nullptr);
      if (checkpoint.state().step_in_epoch > 0)
        refuse(
            "{}: was written within an epoch, where members that are trained together do not go on; train this member "
            "to the end of the epoch: train --resume {} --epochs {}",
            e.resumed_from.string(), e.folder.path.string(), checkpoint.state().epoch + 1);
      stack.resume(m, checkpoint.load(e.t.network, stack.parameters(m), e.t.moments()));
    }
    const RunState& s = stack.record(m).state;
    e.seconds = s.seconds;
    e.epochs = s.epoch;
    e.metrics.emplace(e.folder.metrics(), e.resumed_from.empty() ? -1 : s.step, e.t.unit);
    e.metrics->write(EventRecord{e.resumed_from.empty() ? "start" : "resume", s.step, e.resumed_from.string()});
  }
}

ExitCode StackedRun::train_all(const Dataset& training, const Dataset* validation, Launch& launch) {
  std::vector<StackedMember> members;
  for (const auto& e : entries_) members.push_back(e->stacked);
  StackedTraining stack(*session_->context, std::move(members), training, validation,
                        stacked_options(launch, validation));
  resume_members(stack);
  if (rank_ == 0) print_frame(training, validation);
  for (bool more = true; more;) {
    epoch_start_ = Clock::now();
    more = stack.train_epoch();
    if (!stack.was_cut()) finish_epoch(stack);
  }
  wait_for_checkpoints();
  std::optional<StopReason> cut;
  if (stack.was_cut()) cut = Interrupt::requested() ? StopReason::interrupted : StopReason::time_limit;
  end_members(stack, cut);
  return cut ? ExitCode::interrupted : ExitCode::done;
}

bool StackedRun::goes_on(const StackedProgress& p) {
  const auto now = Clock::now();
  if (now - last_line_ > std::chrono::seconds(15)) {
    last_line_ = now;
    const double seconds = std::chrono::duration<double>(now - epoch_start_).count();
    fmt::print("{}epoch {}  {} {}/{}  {} so far\n", speaker_, p.epoch + 1, p.validates ? "validation batch" : "step",
               p.step, p.steps, clock_text(seconds));
    std::fflush(stdout);
  }
  const TrainerOptions& t = shared_->t;
  const bool late = t.time_limit > 0 && std::chrono::duration<double>(now - t.start).count() > t.time_limit;
  return !Interrupt::requested() && !late;
}

/// Records what the members have done in the epoch, and lets their checkpoints be written.
void StackedRun::finish_epoch(StackedTraining& stack) {
  wait_for_checkpoints();
  const double seconds = std::chrono::duration<double>(Clock::now() - epoch_start_).count();
  std::int64_t epoch = 0;
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    Entry& e = *entries_[m];
    const StackedRecord& r = stack.record(m);
    if (!r.failure.empty() && e.member.record.error.empty()) {
      e.member.record.error = r.failure;
      fmt::print(stderr, "{}failed: {}\n", e.member.prefix(), r.failure);
    }
    if (!r.failure.empty() || r.state.epoch == e.epochs) continue;
    epoch = r.state.epoch;
    e.epochs = r.state.epoch;
    record_epoch(e, r);
    const Metric* judge = e.t.evaluation.judge();
    if (e.t.target > 0 && judge && r.state.best_epoch == epoch &&
        (judge->better(r.state.metric, e.t.target) || r.state.metric == e.t.target)) {
      e.reached = true;
      stack.stop(m);
    }
    const bool best = r.state.best_epoch == epoch;
    if (!r.done && !e.reached && !best && (shared_->every == 0 || epoch % shared_->every != 0)) continue;
    RunState s = r.state;
    s.config = e.t.config;
    s.texts = e.t.texts;
    e.copy = copy_run(s, stack.parameters(m), e.t.moments());
    e.copy->best = best;
  }
  if (epoch > 0) print_epoch(stack, epoch, seconds);
  writer_ = start_background_thread("checkpoints", [this] {
    try {
      for (const auto& e : entries_) {
        if (!e->copy) continue;
        e->lock->require();
        e->written = CheckpointFolder(e->folder.checkpoints(), shared_->keep).write(*e->copy);
      }
    } catch (...) {
      write_error_ = std::current_exception();
    }
  });
}

void StackedRun::record_epoch(Entry& e, const StackedRecord& r) {
  const RunState& s = r.state;
  const std::int64_t steps = (s.train_samples + s.global_batch - 1) / s.global_batch;
  const double seconds = s.seconds - e.seconds;
  e.seconds = s.seconds;
  EpochRecord record{.epoch = s.epoch, .step = s.step, .train_loss = r.train_loss};
  record.validation_loss = s.validation_loss;
  record.metric = s.metric;
  record.metric_values = r.metric_values;
  record.learning_rate =
      e.t.schedule.at(static_cast<double>(s.epoch) - 1.0 / static_cast<double>(std::max<std::int64_t>(1, steps)));
  record.rate = static_cast<double>(s.train_samples * e.t.unit.per_sample) / std::max(1e-9, seconds);
  record.seconds.compute = seconds;
  record.best = s.best_epoch == s.epoch;
  record.samples = s.train_samples;
  e.lock->require();
  e.metrics->write(record);
}

void StackedRun::wait_for_checkpoints() {
  if (writer_.joinable()) writer_.join();
  if (write_error_) std::rethrow_exception(write_error_);
  for (const auto& e : entries_) {
    if (!e->copy) continue;
    e->metrics->write(
        EventRecord{e->copy->best ? "best" : "checkpoint", e->copy->state.step, e->written.filename().string()});
    e->copy.reset();
  }
}

void StackedRun::end_members(StackedTraining& stack, std::optional<StopReason> cut) {
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    Entry& e = *entries_[m];
    const StackedRecord& r = stack.record(m);
    const StopReason reason = e.reached ? StopReason::target_reached : cut && !r.done ? *cut : StopReason::epochs_done;
    e.member.tell(r.state, reason, e.t);
    if (!r.failure.empty()) e.member.record.state = "failed";
    const std::string state = e.member.record.state;
    e.metrics->write(EventRecord{"stop", r.state.step, r.failure.empty() ? state : r.failure});
    e.report.status = state;
    e.report.history = read_metrics(e.folder.metrics());
    e.lock->require();
    write_atomically(e.folder.report(), render_report(e.report));
  }
}

void StackedRun::print_frame(const Dataset& training, const Dataset* validation) const {
  const Entry& first = *entries_[0];
  std::int64_t least = first.stacked.graph->parameter_count(), most = least;
  for (const auto& e : entries_) {
    least = std::min(least, e->stacked.graph->parameter_count());
    most = std::max(most, e->stacked.graph->parameter_count());
  }
  fmt::print(
      "{}: {} together, {} parameters each, {}; {}\n", first.t.network,
      counted(static_cast<std::int64_t>(entries_.size()), "member"),
      least == most ? std::to_string(least) : fmt::format("{} to {}", least, most),
      session_->context->device().shares_host_memory() ? "a thread for each that is at work" : "one after the other",
      session_->describe());
  fmt::print("training data:   {}\n", training.describe());
  if (validation) fmt::print("validation data: {}\n", validation->describe());
  fmt::print("{}, batch {}; {}; learning rate {}; {}\n", counted(first.t.epochs, "epoch"), first.t.batch,
             first.t.optimizer->to_string(), first.t.schedule.to_string(), to_string(first.t.precision));
  std::fflush(stdout);
}

void StackedRun::print_epoch(const StackedTraining& stack, std::int64_t epoch, double seconds) const {
  struct Value {
    double of;
    std::int64_t member;
  };
  std::vector<Value> found;
  const Metric* judge = entries_[0]->t.evaluation.judge();
  double units = 0, loss = 0, validation_loss = 0;
  std::int64_t epochs = 0;
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    const StackedRecord& r = stack.record(m);
    epochs = std::max(epochs, entries_[m]->t.epochs);
    if (!r.failure.empty() || r.state.epoch != epoch) continue;
    found.push_back({r.state.metric, entries_[m]->member.record.member});
    units += static_cast<double>(r.state.train_samples * shared_->t.unit.per_sample);
    loss += r.train_loss;
    validation_loss += r.state.validation_loss;
  }
  const auto count = static_cast<double>(found.size());
  auto text = fmt::format("{}epoch {}/{}  {}  mean train loss {:.4f}", speaker_, epoch, epochs,
                          counted(static_cast<std::int64_t>(found.size()), "member"), loss / count);
  if (!std::isnan(validation_loss)) {
    text += fmt::format("  mean validation loss {:.4f}", validation_loss / count);
    const auto better = [&](const Value& a, const Value& b) { return judge ? judge->better(a.of, b.of) : a.of < b.of; };
    std::ranges::sort(found, better);
    if (judge)
      text += fmt::format("  {} {} (member {}) to {} (member {}), median {}", judge->name(), judge->text(found[0].of),
                          found[0].member, judge->text(found.back().of), found.back().member,
                          judge->text(found[found.size() / 2].of));
  }
  fmt::print("{}  {} {}s/s\n", text, rate_text(units / std::max(1e-9, seconds)), shared_->t.unit.name);
  std::fflush(stdout);
}

}  // namespace keelson::app
