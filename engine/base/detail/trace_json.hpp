#pragma once

#include <string>
#include <vector>

#include "engine/base/clock_comparison.hpp"
#include "engine/base/trace.hpp"

/// The text of trace files: Trace Event Format, "JSON Object Format"
/// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
namespace keelson::detail {

/// One rank of a trace.
struct RankOfTrace {
  int rank = 0;
  std::string host;
  ClockComparison first, last;  ///< at the start and at the end of the trace
  TraceTime begin = 0;          ///< the start of the trace on rank 0's clock: 0 in the file
};

/// The text before the events.
inline constexpr const char* trace_head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
/// The rank's events and names, with ",\n" between them; never empty.
std::string render_events(const TraceRecorder& recorder, const RankOfTrace& r);
/// The file's information about the rank itself: one JSON object.
std::string render_rank(const TraceRecorder& recorder, const RankOfTrace& r);
/// The text after the events. `ranks`: results of render_rank(). `whole`: the file has all ranks.
std::string trace_tail(const std::vector<std::string>& ranks, std::size_t capacity, bool whole);

}  // namespace keelson::detail
