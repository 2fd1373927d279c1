#include "engine/train/checkpoint/run_checkpoints.hpp"

#include <algorithm>

#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

/// The folder that holds this checkpoint; empty for an empty path.
std::filesystem::path folder_holding(const std::filesystem::path& checkpoint) {
  return checkpoint.empty() || checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
}

}  // namespace

RunCheckpoints::RunCheckpoints(const CheckpointOptions& options, Communicator* ranks, const Observers& observers)
    : options_(options),
      ranks_(ranks),
      observers_(observers),
      writer_(CheckpointFolder(options.folder, options.keep)) {}

bool RunCheckpoints::due_after_epoch(const RunState& state, bool best) const {
  return best || (options_.epochs > 0 && state.epoch % options_.epochs == 0);
}

bool RunCheckpoints::due_after_step(const RunState& state) const {
  return options_.steps > 0 && state.step > 0 && state.step % options_.steps == 0 && !is_saved(state);
}

void RunCheckpoints::resume(const std::filesystem::path& checkpoint, const RunState& state) {
  resumed_from_ = last_ = checkpoint;
  owns_folder_ = false;
  mark_saved(state);
}

void RunCheckpoints::set_aside_later_ones(const RunState& state) {
  if (resumed_from_.empty() || owns_folder_) return;
  if (is_rank0()) claim_folder(state);
  owns_folder_ = true;
}

/// Sets aside the checkpoints that this run does not go on from, before the run first writes. Called by rank 0.
void RunCheckpoints::claim_folder(const RunState& state) {
  if (owns_folder_ || !wanted()) return;
  if (options_.before_writing) options_.before_writing();  // the folder must still be this run's
  writer_.wait();
  const CheckpointFolder folder(options_.folder, options_.keep);
  std::error_code e;
  const bool goes_on = std::filesystem::equivalent(folder_holding(resumed_from_), options_.folder, e) && !e;
  const auto aside = folder.set_aside(goes_on ? &state : nullptr);
  if (!aside.empty()) observers_.notify([&](auto& o) { o.on_set_aside(state, aside); });
}

void RunCheckpoints::copy(const RunState& state, const Parameters& parameters, const std::vector<std::string>& moments,
                          bool best, bool on_every_rank) {
  const auto make_copy = [&](Communicator* ranks) {
    auto copy = copy_run(state, parameters, moments, ranks);
    copy.best = best;
    copy_ = std::make_shared<const CheckpointCopy>(std::move(copy));
  };
  const bool spread = parameters.are_spread();
  on_first_rank(ranks_, [&] {
    claim_folder(state);
    if (options_.before_writing) options_.before_writing();
    if (!spread) make_copy(nullptr);
  });
  if (spread) on_each_rank(ranks_, [&] { make_copy(ranks_); });
  if (on_every_rank && !is_rank0() && !spread) make_copy(nullptr);
  if (spread && !is_rank0()) copy_.reset();
}

void RunCheckpoints::start_writing(const RunState& state, bool keep_copy) {
  owns_folder_ = true;
  if (is_rank0()) writer_.start(copy_);
  if (!keep_copy) copy_.reset();
  last_ = CheckpointFolder(options_.folder, options_.keep).path_of(state.step);
}

void RunCheckpoints::take_over() {
  if (copy_) writer_.start(copy_);
}

void RunCheckpoints::wait() {
  constexpr double at_most = 0.1;  // seconds
  for (std::int64_t done = 0; done == 0;) {
    if (is_rank0()) done = writer_.wait_for(at_most) ? 1 : 0;
    if (ranks_) ranks_->broadcast(&done, sizeof done, 0);
  }
}

void RunCheckpoints::finish() {
  wait();
  on_first_rank(ranks_, [&] { notify(writer_.take(true)); });
}

void RunCheckpoints::notify_if_written() { notify(writer_.take(false)); }

void RunCheckpoints::notify(const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  longest_seconds_ = std::max(longest_seconds_, written->seconds);
  observers_.notify([&](auto& o) { o.on_checkpoint(written->copy->state, written->path, written->copy->best); });
}

std::string RunCheckpoints::describe_last() const {
  return last_.empty() ? "No checkpoint was written" : "The last checkpoint is " + last_.string();
}

}  // namespace keelson
