#include "engine/train/pending_steps.hpp"

#include <algorithm>
#include <limits>

namespace keelson {

void PendingSteps::regroup(Communicator* ranks, std::size_t slack) {
  losses_.reset();
  slack_ = slack;
  if (ranks) losses_.emplace(*ranks, slack + 2);
}

void PendingSteps::add(const PendingStep& step, Executor& executor, const Finish& finish) {
  steps_.push_back(step);
  if (!losses_) return;
  post_losses(ahead_, executor);
  finish_all_but(slack_ + ahead_, executor, finish);
}

void PendingSteps::finish_all_but(std::size_t left, Executor& executor, const Finish& finish) {
  if (losses_ && steps_.size() > left) post_losses(std::min(left, ahead_), executor);
  while (steps_.size() > left) {
    PendingStep step = steps_.front();
    steps_.pop_front();
    finish(step, losses_ ? Executor::StepResult{losses_->take(), {}} : executor.take_readback());
  }
}

/// Begins the exchange of the losses of all steps but the latest `left`, which the device has not done.
void PendingSteps::post_losses(std::size_t left, Executor& executor) {
  for (std::size_t i = 0; i + left < steps_.size(); ++i) {
    PendingStep& step = steps_[i];
    if (step.posted) continue;
    if (ahead_ > 0) {
      const auto result = executor.take_readback();
      // All ranks stop if a gradient of one of them is not finite.
      step.loss = result.loss_scale.skip ? std::numeric_limits<double>::quiet_NaN() : result.loss;
    }
    losses_->post(step.loss);
    step.posted = true;
  }
}

}  // namespace keelson
