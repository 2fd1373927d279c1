#pragma once

#include <optional>

#include "engine/execute/call_checker.hpp"

namespace keelson {

/// Runs the calls of a program. Where the device can capture work, each run of computations is captured at its second
/// execution (the first one finds what kernels look up once) and launched as a whole from then on; communications stand
/// between the captured graphs. A run that cannot be captured is executed call by call.
/// Under KEELSON_CHECK=1 each call is executed by a CallChecker, and nothing is captured.
class GraphExecutor {
 public:
  /// `cuts`: where runs begin that are executed apart (the passes of a step), rising. `calls` are those of the program,
  /// bound; neither may move.
  GraphExecutor(const Program& program, std::vector<BoundCall>& calls, Device& device,
                const std::vector<std::size_t>& cuts);
  /// Calls [first, last), which begin and end at cuts. `communicator`, if there is one, may progress between them.
  void run(std::size_t first, std::size_t last, Communicator* communicator);
  /// Tensors of the calls have moved: what was captured is void.
  void forget();
  /// On: calls are executed and timed one by one.
  void set_profiling(bool on);

 private:
  struct Segment {
    std::size_t first, last;
    bool queues_only;  ///< talks to nobody
    bool capturable;
    bool warm = false;
    std::unique_ptr<CapturedGraph> captured;
  };
  void capture(Segment& s);
  void execute(const Segment& s, Communicator* communicator);

  std::vector<BoundCall>& bound_;
  Device& device_;
  std::vector<Segment> segments_;
  std::optional<CallChecker> checker_;
  bool captures_, profiling_ = false;
};

}  // namespace keelson
