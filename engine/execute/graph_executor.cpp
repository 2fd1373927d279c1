#include "engine/execute/graph_executor.hpp"

#include <algorithm>
#include <chrono>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"

namespace keelson {

GraphExecutor::GraphExecutor(const Program& program, std::vector<BoundCall>& calls, Device& device,
                             const std::vector<std::size_t>& cuts)
    : bound_(calls), device_(device), captures_(device.can_capture()) {
  if (checks_calls()) checker_.emplace(program, device);
  captures_ = captures_ && !checker_;
  const auto& list = program.calls();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Communication* communication = list[i].communication();
    const bool queues_only = communication == nullptr;
    waits_.push_back(communication && communication->step == Communication::Step::wait);
    const bool cut = std::find(cuts.begin(), cuts.end(), i) != cuts.end();
    if (cut || segments_.empty() || segments_.back().queues_only != queues_only)
      segments_.push_back({i, i, queues_only, queues_only, false, nullptr});
    ++segments_.back().last;
  }
}

void GraphExecutor::forget() {
  for (Segment& s : segments_) {
    s.captured.reset();
    s.warm = false;  // operands elsewhere may meet other kernels
  }
}

void GraphExecutor::set_profiling(bool on) {
  profiling_ = on;
  if (!on) return;
  for (BoundCall& c : bound_) {
    c.milliseconds.clear();
    c.milliseconds.reserve(1024);
  }
}

void GraphExecutor::execute(const Segment& s, Communicator* communicator) {
  using Clock = std::chrono::steady_clock;
  auto& calls = bound_;
  for (std::size_t i = s.first; i < s.last; ++i) {
    const auto start = profiling_ || waits_[i] ? Clock::now() : Clock::time_point{};
    if (checker_)
      checker_->run(i, calls[i]);
    else
      calls[i].run();
    if (waits_[i]) waited_ += std::chrono::duration<double>(Clock::now() - start).count();
    if (profiling_) {
      device_.fence();
      calls[i].milliseconds.push_back(std::chrono::duration<float, std::milli>(Clock::now() - start).count());
    }
    if (communicator) communicator->progress();
  }
}

/// Some work of a library may not be capturable, which nobody can know before. Started call by call it does the same.
void GraphExecutor::capture(Segment& s) {
  try {
    s.captured = device_.capture([&] { execute(s, nullptr); });
  } catch (const Error& e) {
    s.capturable = false;
    if (verbose()) fmt::print(stderr, "keelson: a part of the step is not captured: {}\n", e.what());
  }
}

void GraphExecutor::run(std::size_t first, std::size_t last, Communicator* communicator) {
  for (Segment& s : segments_) {
    if (s.first < first || s.first >= last) continue;
    KEELSON_EXPECT(s.last <= last);
    if (!s.captured && s.warm && s.capturable && captures_ && !profiling_) capture(s);
    if (s.captured && !profiling_) {
      s.captured->launch();
      if (communicator) communicator->progress();
    } else {
      execute(s, communicator);
      s.warm = true;
    }
  }
}

}  // namespace keelson
