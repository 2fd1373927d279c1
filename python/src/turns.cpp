#include "turns.hpp"

#include <utility>

#include "engine/base/error.hpp"

namespace keelson::python {

namespace {

thread_local const Turns* awaited = nullptr;

}  // namespace

Turns::Awaited::Awaited(const Turns& turns) : before_(std::exchange(awaited, &turns)) {}

Turns::Awaited::~Awaited() { awaited = before_; }

bool Turns::is_awaited() const { return awaited == this; }

void Turns::require_not_awaited() const {
  if (is_awaited())
    refuse(
        "a function of a data set, or a transform, uses the parameters for which the sample is read: the step or "
        "evaluation waits for "
        "the sample, and this call would wait for the step. Expected a sample that does not depend on them: predict "
        "with other keelson.Parameters of the same graph, into which a callback copies the values between steps, or "
        "predict before training");
}

void Turns::lock() {
  require_not_awaited();
  std::unique_lock guard(mutex_);
  if (depth_ == 0 || owner_ != std::this_thread::get_id()) {
    const auto number = asked_++;
    changed_.wait(guard, [&] { return served_ == number; });
    owner_ = std::this_thread::get_id();
  }
  ++depth_;
}

void Turns::unlock() {
  const std::lock_guard guard(mutex_);
  if (--depth_ > 0) return;
  ++served_;
  changed_.notify_all();
}

bool Turns::mine() const {
  const std::lock_guard guard(mutex_);
  return depth_ > 0 && owner_ == std::this_thread::get_id();
}

Turns::Pause::Pause(Turns& turns) : turns_(&turns) {
  {
    const std::lock_guard guard(turns.mutex_);
    if (turns.depth_ != 1 || turns.owner_ != std::this_thread::get_id()) turns_ = nullptr;
  }
  if (turns_) turns_->unlock();
}

Turns::Pause::~Pause() {
  if (turns_) turns_->lock();
}

}  // namespace keelson::python
