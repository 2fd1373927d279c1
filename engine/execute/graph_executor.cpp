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
  if (captures_ && device.can_overlap()) overlap_ = overlap_mode();
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
      segments_.push_back(
          {.first = i, .last = i, .queues_only = queues_only, .capturable = capturable, .every = list[i].every});
    ++segments_.back().last;
  }
  if (overlap_ == OverlapMode::off) return;
  for (Segment& s : segments_)
    if (s.capturable)
      if (InstanceSchedule schedule(program, s.first, s.last); schedule.has_two()) s.schedule = std::move(schedule);
}

void GraphExecutor::forget() {
  for (Segment& s : segments_) {
    s.captured.reset();
    s.trial.reset();
    s.warm_ups = 0;  // libraries may choose other kernels for operands at other places
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

void GraphExecutor::execute_on_two_instances(const Segment& s) {
  if (!second_) second_ = device_.make_instance();
  ExecutionInstance& first = device_.current_instance();
  std::vector<std::shared_ptr<Event>> ends(s.last - s.first);
  second_->wait_for(first);
  for (std::size_t i = s.first; i < s.last; ++i) {
    const InstanceSchedule::Entry& entry = (*s.schedule)[i];
    ExecutionInstance& instance = entry.overlaps ? *second_ : first;
    const InstanceScope scope(instance);
    if (entry.waits_for >= 0) instance.wait_for(*ends[static_cast<std::size_t>(entry.waits_for) - s.first]);
    execute(i);
    if (entry.is_awaited) ends[i - s.first] = instance.record();
  }
  first.wait_for(*second_);
}

bool GraphExecutor::is_ready(const Segment& s) const {
  return captures_ && s.capturable && !profiling_ && s.warm_ups >= (s.schedule ? 2 : 1);
}

void GraphExecutor::warm_up(Segment& s, ProgressEngine* progress) {
  const bool on_two = s.schedule && !profiling_ && s.warm_ups == 1;
  if (on_two)
    execute_on_two_instances(s);
  else
    execute(s, progress);
  if (on_two || s.warm_ups == 0) ++s.warm_ups;
}

/// Some work of a library cannot be captured, and only the attempt shows that. Such work runs call by call.
void GraphExecutor::capture(Segment& s) {
  const auto attempt = [&](const std::function<void()>& work, const char* how) -> std::unique_ptr<CapturedGraph> {
    try {
      return device_.capture(work);
    } catch (const Error& e) {
      if (verbose()) fmt::print(stderr, "keelson: a part of the step is not captured{}: {}\n", how, e.what());
      return nullptr;
    }
  };
  s.captured = attempt([&] { execute(s, nullptr); }, "");
  s.capturable = s.captured != nullptr;
  if (!s.captured || !s.schedule) return;
  auto on_two = attempt([&] { execute_on_two_instances(s); }, " on two execution instances");
  if (!on_two)
    s.schedule.reset();
  else if (overlap_ == OverlapMode::on)
    s.captured = std::move(on_two);
  else
    s.trial.emplace(fmt::format("calls {} to {} of the step", s.first, s.last - 1), std::move(s.captured),
                    std::move(on_two));
}

void GraphExecutor::launch(Segment& s) {
  if (!s.trial) return s.captured->launch();
  s.captured = s.trial->launch(device_);
  if (s.captured) s.trial.reset();
}

void GraphExecutor::run(std::size_t first, std::size_t last, std::uint64_t step, ProgressEngine* progress) {
  for (Segment& s : segments_) {
    if (s.first < first || s.first >= last) continue;
    KEELSON_EXPECT(s.last <= last);
    if (!s.every.due(step)) continue;
    if (!s.captured && !s.trial && is_ready(s)) capture(s);
    if ((s.captured || s.trial) && !profiling_) {
      const TraceTime begin = trace_now();
      launch(s);
      if (CallTracer* t = tracer()) t->launched(s.first, s.last, begin, trace_now());
      if (progress) progress->advance();
    } else {
      warm_up(s, progress);
    }
  }
}

}  // namespace keelson
