#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/train/trainer.hpp"

/// What the trainer does for the modes of TrainerOptions::sync.
namespace keelson {

bool Trainer::updates_locally(std::int64_t done) const {
  return communicator_ && communicator_->size() > 1 && options_.sync.updates_locally(done);
}

void Trainer::check_sync() const {
  const SyncMode& mode = options_.sync;
  if (mode.kind == SyncMode::Kind::synchronous) return;
  if (options_.precision == Precision::fp16)
    refuse(
        "synchronization {} with fp16: all ranks must agree on the scale of the loss in each step, which only "
        "synchronous training does. Give --precision bf16, or --sync synchronous",
        mode.to_string());
  if (options_.exchange.reproducible)
    refuse(
        "synchronization {} with reproducible sums (--reproducible): what this mode computes depends on the number of "
        "ranks or begins a step late. Leave --reproducible out, or give --sync synchronous",
        mode.to_string());
  if (!communicator_ || communicator_->size() == 1) return;
  if (communicator_->survives_losses())
    refuse(
        "synchronization {} on {} that survive losses: only synchronous training goes on without ranks that die. "
        "Start the program without --with-ft ulfm, or give --sync synchronous",
        mode.to_string(), counted(communicator_->size(), "rank"));
  if (mode.kind != SyncMode::Kind::lag && options_.exchange.wire != Wire::fp32)
    refuse(
        "synchronization {} with a wire of 16 bits: that is for gradients, and this mode sends parameters. Give --wire "
        "fp32, or --sync synchronous or lag",
        mode.to_string());
}

void Trainer::adopt_mode(std::int64_t done) {
  const bool local = updates_locally(done);
  if (local == local_) return;
  settle();
  parameters_.context().device().fence();
  synchronizer_.reset();
  feed_.reset();
  executor_.reset();
  local_ = local;
  executor_ = make_executor(*graph_);
  feed_.emplace(training_.fields(), loader_->coded(), *executor_, parameters_.context());
  run_steps_ = 0;  // the new plan's calls are timed, too
  make_synchronizer();
}

void Trainer::make_synchronizer() {
  synchronizer_.reset();
  losses_.reset();
  if (local_)
    synchronizer_ = keelson::make_synchronizer(parameters_, *communicator_,
                                               {options_.sync, options_.seed, options_.exchange.bucket_bytes});
  const std::size_t slack = local_ ? synchronizer_->slack() : 0;
  if (local_) losses_.emplace(*communicator_, slack + 2);
  vote_.wait();
  vote_.regroup(communicator_, slack);
}

}  // namespace keelson
