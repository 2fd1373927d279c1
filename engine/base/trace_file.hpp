#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/base/clock_comparison.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/trace.hpp"

namespace keelson {

/// Traces all ranks, from construction to finish(), into one file in Chrome's Trace Event Format (JSON), which
/// ui.perfetto.dev and chrome://tracing open. Each rank is a process ("rank 3 (node7)"), each thread a track with its
/// spans, each collective an asynchronous track of its rank: posting, under way, landed, waited for. Times are
/// microseconds of rank 0's clock since the trace began. "otherData" in the file says how clocks were compared, with
/// which error, and how many events were dropped.
class TraceFile {
 public:
  /// Begins the trace. `events`: the largest number of events that each rank keeps; newer events replace older ones. 0:
  /// default_events(). `ranks` must outlive the trace. Throws InputError on all ranks if rank 0 cannot write to `path`.
  /// Collective.
  TraceFile(std::filesystem::path path, Communicator& ranks, std::int64_t events = 0);
  /// If an exception ended the run before finish(), other ranks may never take part. This rank then writes only its own
  /// events: rank 0 to the path, others to the path with ".rank-N" appended. Ignores failures.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Ends the trace and writes the file. Throws Error on all ranks if rank 0 cannot write. Collective.
  void finish();

  /// 4 million events of all ranks together, but at least 2000 and at most 250,000 per rank.
  static std::int64_t default_events(int ranks);

 private:
  std::filesystem::path path_;
  Communicator& ranks_;
  std::string host_;
  TraceRecorder recorder_;
  ClockComparison first_;
  TraceTime begin_ = 0;  ///< of the trace, on rank 0's clock
  bool finished_ = false;
};

}  // namespace keelson
