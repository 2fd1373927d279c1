#include "engine/base/activity.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/trainer.hpp"

namespace keelson {
namespace {

/// Empty for an empty path: that is of no checkpoint.
std::filesystem::path folder_holding(const std::filesystem::path& checkpoint) {
  return checkpoint.empty() || checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
}

}  // namespace

void Trainer::gather_states() {
  if (state_.step_in_epoch == 0) return;  // an epoch begins with zeros
  for (const auto& name : executor_->states()) {
    const Tensor t = executor_->input(name);
    std::vector<float> mine(static_cast<std::size_t>(t.elements()));
    parameters_.context().device().copy_to_host(mine.data(), t.raw(), t.bytes());
    auto all = communicator_ ? communicator_->gather(mine, 0) : mine;
    Shape shape = t.shape();
    shape[0] = state_.global_batch;
    if (survives()) {  // any rank may have to go on from this
      all.resize(static_cast<std::size_t>(shape.elements()));
      communicator_->broadcast(all.data(), all.size() * sizeof(float), 0);
    } else if (!is_root()) {
      continue;
    }
    state_.carried[name] = {shape, std::move(all)};
  }
}

void Trainer::restore_states(const RunState& loaded) {
  if (loaded.step_in_epoch == 0) return;
  for (const auto& name : executor_->states()) {
    const Tensor t = executor_->input(name);
    const auto& values = loaded.carried.at(name).values;
    const std::int64_t first = (communicator_ ? communicator_->rank() : 0) * t.elements();
    parameters_.context().device().copy_from_host(t.raw(), values.data() + first, t.bytes());
  }
}

void Trainer::keep_loss_scale() {
  if (!executor_->plan().checks_gradients()) return;
  const auto scale = executor_->loss_scale();
  state_.loss_scale = scale.scale;
  state_.good_steps = scale.good_steps;
  state_.skipped_steps = scale.skipped;
}

std::shared_ptr<const CheckpointCopy> Trainer::copy(bool best) const {
  auto copy = copy_run(state_, parameters_, moments_);
  copy.best = best;
  return std::make_shared<const CheckpointCopy>(std::move(copy));
}

void Trainer::save_checkpoint(bool best) {
  settle();
  saved_step_ = state_.step;
  if (options_.checkpoints.empty()) return;
  // After the last step of an epoch the next one has begun, without a step.
  const Activity activity(Activity::Kind::checkpoint, state_.step, state_.epoch + (state_.step_in_epoch > 0 ? 1 : 0));
  keep_loss_scale();
  const auto begin = Clock::now();
  together("a checkpoint", [&] {
    finish_checkpoint();
    tell([&](auto& o) { o.before_checkpoint(state_); });
    gather_states();
    on_first_rank(communicator_, [&] {
      claim_folder();
      if (options_.before_checkpoint) options_.before_checkpoint();
      copy_ = copy(best);
    });
    // The rank that is rank 0 after a loss may have to write it.
    if (survives() && !is_root()) copy_ = copy(best);
    state_.carried.clear();
  });
  owns_folder_ = true;
  if (is_root()) writer_.start(copy_);
  if (!survives()) copy_.reset();
  last_saved_ = CheckpointFolder(options_.checkpoints, options_.keep).path_of(state_.step);
  const auto seconds = since(begin);
  vote_.reserve(seconds);
  run_checkpoints_ += seconds;
}

/// Called by rank 0.
void Trainer::claim_folder() {
  if (owns_folder_ || options_.checkpoints.empty()) return;
  if (options_.before_checkpoint) options_.before_checkpoint();  // the folder must still be this run's
  writer_.wait();
  const CheckpointFolder folder(options_.checkpoints, options_.keep);
  std::error_code e;
  const bool goes_on = std::filesystem::equivalent(folder_holding(resumed_from_), options_.checkpoints, e) && !e;
  const auto aside = folder.set_aside(goes_on ? &state_ : nullptr);
  if (!aside.empty()) tell([&](auto& o) { o.on_set_aside(state_, aside); });
}

void Trainer::leave_abandoned() {
  if (resumed_from_.empty() || owns_folder_) return;
  if (is_root()) claim_folder();
  owns_folder_ = true;
}

void Trainer::await_writer() {
  constexpr double at_most = 0.1;  // seconds
  for (std::int64_t done = 0; done == 0;) {
    if (is_root()) done = writer_.wait_for(at_most) ? 1 : 0;
    if (communicator_) communicator_->broadcast(&done, sizeof done, 0);
  }
}

void Trainer::finish_checkpoint() {
  await_writer();
  on_first_rank(communicator_, [&] { tell_checkpoint(writer_.take(true)); });
}

void Trainer::tell_checkpoint(const std::optional<CheckpointWriter::Written>& written) {
  if (!written) return;
  vote_.reserve(written->seconds);
  tell([&](auto& o) { o.on_checkpoint(written->copy->state, written->path, written->copy->best); });
}

void Trainer::wait() {
  settle();
  if (!options_.checkpoints.empty()) together("a checkpoint", [&] { finish_checkpoint(); });
}

}  // namespace keelson
