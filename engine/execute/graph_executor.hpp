#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "engine/base/progress_engine.hpp"
#include "engine/execute/call_checker.hpp"
#include "engine/execute/call_tracer.hpp"
#include "engine/execute/instance_schedule.hpp"
#include "engine/execute/overlap_trial.hpp"
#include "engine/plan/overlap_weight_gradients.hpp"

namespace keelson {

/// Runs the calls of a program. If the device can capture work, each run of consecutive computations is captured at
/// its second execution and launched as a whole from then on. The first execution is call by call, since kernels do
/// some work only once. Between the captured graphs stand communications, verbs that cannot be captured
/// (Primitive::can_be_captured), and calls of other steps (Call::every): each run of calls has the same steps. A run
/// whose capture fails is executed call by call. Under KEELSON_CHECK=1 a CallChecker executes each call, and nothing is
/// captured. If the device can overlap the work of two execution instances, the calls that overlap others
/// (Call::overlaps) run on a second instance where that takes less time (OverlapTrial). While a TraceRecorder is active
/// a CallTracer records the calls.
class GraphExecutor {
 public:
  /// `calls`: the bound calls of the program. `cuts`: rising indices of calls at which run() may begin or end (the
  /// passes of a step). All references must outlive the executor.
  GraphExecutor(const Program& program, std::vector<BoundCall>& calls, Device& device,
                const std::vector<std::size_t>& cuts);
  /// Runs those of the calls [first, last) that are due in step number `step`. Both are cuts. `progress` advances
  /// between calls, or its thread works beside them; may be null.
  void run(std::size_t first, std::size_t last, std::uint64_t step, ProgressEngine* progress);
  /// Drops the captured graphs. To be called when tensors of the calls have moved.
  void forget();
  /// On: calls are executed and timed one by one (BoundCall::milliseconds).
  void set_profiling(bool on);
  /// Seconds that the host has waited in communications since the last call of this function.
  double take_waited() { return std::exchange(waited_, 0); }

 private:
  struct Segment {
    std::size_t first, last;
    bool queues_only;  ///< has no communications
    bool capturable;
    Every every = {};                          ///< of all its calls
    std::optional<InstanceSchedule> schedule;  ///< of two instances; empty: all calls run on one
    int warm_ups = 0;                          ///< executions call by call since forget()
    std::unique_ptr<CapturedGraph> captured;
    std::optional<OverlapTrial> trial;  ///< until its result is in `captured`
  };
  bool is_ready(const Segment& s) const;
  void capture(Segment& s);
  void launch(Segment& s);
  /// As a warm-up: once on each number of instances that may be captured.
  void warm_up(Segment& s, ProgressEngine* progress);
  void execute(const Segment& s, ProgressEngine* progress);
  void execute_on_two_instances(const Segment& s);
  /// Runs call `i`, and measures its time if that is asked for.
  void execute(std::size_t i);
  /// Index behind the calls that run together with call `i` (Call::together), at most `last`. Calls that are checked or
  /// timed run one by one.
  std::size_t end_of_group(std::size_t i, std::size_t last);
  /// The tracer for the active recorder; null: nothing is traced.
  CallTracer* tracer();

  const Program& program_;
  std::vector<BoundCall>& bound_;
  Device& device_;
  std::vector<Segment> segments_;
  std::optional<CallChecker> checker_;
  std::optional<CallTracer> tracer_;
  std::vector<bool> waits_;  ///< by call
  bool captures_, profiling_ = false;
  OverlapMode overlap_ = OverlapMode::off;
  std::shared_ptr<ExecutionInstance> second_;  ///< made when it is needed
  double waited_ = 0;
};

}  // namespace keelson
