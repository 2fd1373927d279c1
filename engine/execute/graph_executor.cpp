#include "engine/execute/graph_executor.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"

namespace keelson {
namespace {

/// While this object exists, a background thread advances the group's collectives, if the group has such a thread.
class Lent {
 public:
  explicit Lent(Communicator* group) : group_(group && group->lend() ? group : nullptr) {}
  ~Lent() {
    try {
      end();
    } catch (...) {  // another exception is already being thrown
    }
  }
  Lent(const Lent&) = delete;
  explicit operator bool() const { return group_ != nullptr; }
  void end() {
    if (Communicator* group = std::exchange(group_, nullptr)) group->reclaim();
  }

 private:
  Communicator* group_;
};

}  // namespace

GraphExecutor::GraphExecutor(const Program& program, std::vector<BoundCall>& calls, Device& device,
                             const std::vector<std::size_t>& cuts)
    : program_(program), bound_(calls), device_(device), captures_(device.can_capture()) {
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
    s.warm = false;  // operands at other addresses may use other kernels
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

CallTracer* GraphExecutor::tracer() {
  TraceRecorder* recorder = TraceRecorder::active();
  if (!recorder) return nullptr;
  // If the host runs ahead of the device, checking collectives could change when they are passed to the library.
  if (!tracer_ || tracer_->recorder() != recorder)
    tracer_.emplace(program_, bound_, device_.shares_host_memory(), *recorder);
  return &*tracer_;
}

void GraphExecutor::execute(std::size_t i) {
  CallTracer* tracer = this->tracer();
  const bool timed = profiling_ || waits_[i] || tracer;
  const TraceTime begin = timed ? trace_now() : 0;
  if (checker_)
    checker_->run(i, bound_[i]);
  else
    bound_[i].run();
  if (profiling_) device_.fence();
  if (!timed) return;
  const TraceTime end = trace_now();
  if (profiling_) bound_[i].milliseconds.push_back(static_cast<float>(end - begin) * 1e-6f);
  if (waits_[i]) waited_ += static_cast<double>(end - begin) * 1e-9;
  if (tracer) tracer->ran(i, begin, end);
}

void GraphExecutor::execute(const Segment& s, Communicator* communicator) {
  const auto look = [&] {
    if (tracer_ && TraceRecorder::active()) tracer_->look();
  };
  Lent lent(s.queues_only ? communicator : nullptr);
  for (std::size_t i = s.first; i < s.last; ++i) {
    execute(i);
    if (!communicator || lent) continue;
    communicator->progress();
    look();
  }
  if (!lent) return;
  lent.end();
  look();
}

/// Captures a segment. Some work of libraries cannot be captured, which is only known after trying; then the calls are
/// executed one by one.
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
      const TraceTime begin = trace_now();
      s.captured->launch();
      if (CallTracer* t = tracer()) t->launched(s.first, s.last, begin, trace_now());
      if (communicator) communicator->progress();
    } else {
      execute(s, communicator);
      s.warm = true;
    }
  }
}

}  // namespace keelson
