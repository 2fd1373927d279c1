#pragma once

#include <vector>

#include "engine/base/trace.hpp"
#include "engine/execute/bindings.hpp"

namespace keelson {

/// Records the calls of a program and its collectives in a TraceRecorder. Allocates memory only in the constructor.
class CallTracer {
 public:
  /// `looks`: between calls, collectives of all ranks are tested for their end. Else a collective counts as active
  /// until the wait for it. The program and the calls must outlive the tracer.
  CallTracer(const Program& program, const std::vector<BoundCall>& calls, bool looks, TraceRecorder& recorder);

  const TraceRecorder* recorder() const { return &recorder_; }  ///< the recorder as given
  /// Records that this call has been executed.
  void ran(std::size_t call, TraceTime begin, TraceTime end);
  /// The calls [first, last) have been launched at once, as a captured graph.
  void launched(std::size_t first, std::size_t last, TraceTime begin, TraceTime end);
  /// Tests which collectives have ended. To be called between calls.
  void look();

 private:
  /// A collective between its start and the end of the wait for it.
  struct Exchange {
    const char* name = nullptr;
    std::size_t start = 0;  ///< index of the call that starts the collective
    TraceTime start_called = 0, start_returned = 0, ended = 0;
    bool looked_at = false;
  };
  void note_exchange(std::size_t call, TraceTime begin, TraceTime end);

  const Program& program_;
  const std::vector<BoundCall>& calls_;
  TraceRecorder& recorder_;
  const bool looks_;
  std::vector<const char*> names_;     ///< per call
  std::vector<const char*> launches_;  ///< per first call of a launch; null: not yet launched
  std::vector<Exchange> exchanges_;    ///< per channel
  std::size_t active_ = 0;             ///< exchanges to test
};

}  // namespace keelson
