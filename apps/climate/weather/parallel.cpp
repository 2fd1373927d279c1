#include "apps/climate/weather/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace keelson::climate {

void for_each_row(int threads, int rows, const std::function<void(int, int)>& work) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int thread) {
    try {
      for (int row; (row = next.fetch_add(1)) < rows;) work(thread, row);
    } catch (...) {
      next = rows;  // makes the other threads stop, too
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < std::min(threads, rows); ++t) others.emplace_back(run, t);
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace keelson::climate
