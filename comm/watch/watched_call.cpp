#include "comm/watch/watched_call.hpp"

#include <chrono>
#include <future>
#include <thread>

#include "engine/base/backoff.hpp"

namespace keelson::comm::detail {

void call_watched(Communicator& world, std::string_view waiting_for, std::function<void()> work) {
  using Clock = std::chrono::steady_clock;
  std::packaged_task<void()> task(std::move(work));
  auto ended = task.get_future();
  std::thread(std::move(task)).detach();
  const auto since = Clock::now();
  while (ended.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    if (seconds >= Backoff::late) world.watchdog().poll(waiting_for, seconds);
  }
  ended.get();
}

}  // namespace keelson::comm::detail
