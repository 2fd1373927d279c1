#include "turns.hpp"

namespace keelson::python {

void Turns::lock() {
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
