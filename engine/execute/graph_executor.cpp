#include "engine/execute/graph_executor.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"

namespace keelson {
namespace {

/// Lets the progress thread work, if there is one.
class ResumedThread {
 public:
  explicit ResumedThread(ProgressEngine* engine) : engine_(engine && engine->resume_thread() ? engine : nullptr) {}
  ~ResumedThread() {
    try {
      pause();
    } catch (...) {  // another exception passes
    }
  }
  ResumedThread(const ResumedThread&) = delete;
  explicit operator bool() const { return engine_ != nullptr; }
  void pause() {
    if (ProgressEngine* engine = std::exchange(engine_, nullptr)) engine->pause_thread();
  }

 private:
  ProgressEngine* engine_;
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
    const Computation* computation = list[i].computation();
    const bool capturable = computation && computation->primitive->can_be_captured(computation->verb);
    waits_.push_back(communication && communication->step == Communication::Step::wait);
    const bool cut = std::find(cuts.begin(), cuts.end(), i) != cuts.end();
    if (cut || segments_.empty() || segments_.back().queues_only != queues_only ||
        segments_.back().capturable != capturable || !(segments_.back().every == list[i].every))
      segments_.push_back({i, i, queues_only, capturable, list[i].every, false, nullptr});
    ++segments_.back().last;
  }
}

void GraphExecutor::forget() {
  for (Segment& s : segments_) {
    s.captured.reset();
    s.warm = false;  // libraries may choose other kernels for operands at other places
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
  // If the host runs ahead of the device, a test could change when collectives go to the library.
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

std::size_t GraphExecutor::end_of_group(std::size_t i, std::size_t last) {
  const auto& calls = program_.calls();
  const int group = calls[i].together;
  std::size_t end = i + 1;
  if (group == 0 || profiling_ || checker_ || tracer()) return end;
  while (end < last && calls[end].together == group) ++end;
  return end;
}

void GraphExecutor::execute(const Segment& s, ProgressEngine* progress) {
  const auto look = [&] {
    if (tracer_ && TraceRecorder::active()) tracer_->look();
  };
  ResumedThread thread(s.queues_only ? progress : nullptr);
  for (std::size_t i = s.first, end = 0; i < s.last; i = end) {
    end = end_of_group(i, s.last);
    if (end == i + 1)
      execute(i);
    else
      device_.run_together(end - i, [&](std::size_t k) { bound_[i + k].run(); });
    if (!progress || thread) continue;
    progress->advance();
    look();
  }
  if (!thread) return;
  thread.pause();
  look();
}

/// Some work of a library cannot be captured, and only the attempt shows that. Such work runs call by call.
void GraphExecutor::capture(Segment& s) {
  try {
    s.captured = device_.capture([&] { execute(s, nullptr); });
  } catch (const Error& e) {
    s.capturable = false;
    if (verbose()) fmt::print(stderr, "keelson: a part of the step is not captured: {}\n", e.what());
  }
}

void GraphExecutor::run(std::size_t first, std::size_t last, std::uint64_t step, ProgressEngine* progress) {
  for (Segment& s : segments_) {
    if (s.first < first || s.first >= last) continue;
    KEELSON_EXPECT(s.last <= last);
    if (!s.every.due(step)) continue;
    if (!s.captured && s.warm && s.capturable && captures_ && !profiling_) capture(s);
    if (s.captured && !profiling_) {
      const TraceTime begin = trace_now();
      s.captured->launch();
      if (CallTracer* t = tracer()) t->launched(s.first, s.last, begin, trace_now());
      if (progress) progress->advance();
    } else {
      execute(s, progress);
      s.warm = true;
    }
  }
}

}  // namespace keelson
