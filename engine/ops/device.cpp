#include "engine/ops/device.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/backoff.hpp"

namespace keelson {

std::shared_ptr<void> Device::watch_waits(std::function<void(double seconds)> late) {
  std::erase_if(watches_, [](const std::weak_ptr<Watch>& w) { return w.expired(); });
  auto watch = std::make_shared<Watch>(Watch{std::this_thread::get_id(), std::move(late)});
  watches_.push_back(watch);
  return watch;
}

void Device::wait_until(const std::function<bool()>& ended) {
  Backoff backoff;
  while (!ended()) {
    const double seconds = backoff();
    if (seconds < Backoff::late) continue;
    for (const auto& w : watches_)
      if (const auto watch = w.lock(); watch && watch->thread == std::this_thread::get_id()) watch->late(seconds);
  }
}

}  // namespace keelson
