#pragma once

#include "engine/base/communicator.hpp"
#include "engine/base/trace.hpp"

namespace keelson {

/// What this rank's clock (trace_now()) showed against that of rank 0.
struct ClockComparison {
  TraceTime at = 0;      ///< when they were compared, by this rank's clock
  TraceTime offset = 0;  ///< nanoseconds that rank 0's clock was ahead
  TraceTime error = 0;   ///< the offset is wrong by at most so many nanoseconds
};

/// Compares the clocks of all ranks with rank 0's, one rank after the other. Rank 0 answers each of 32 messages with
/// its time; the exchange with the shortest round trip counts (Cristian 1989). The answer left somewhere within that
/// round trip, so the error is at most half of it. On rank 0 all zero but `at`. Collective.
ClockComparison compare_clocks(Communicator& ranks);

/// The time that rank 0's clock shows when this rank's clock shows `time`, by two comparisons of this rank: clocks are
/// taken to drift apart evenly between the two, and not at all outside.
TraceTime on_first_ranks_clock(TraceTime time, const ClockComparison& first, const ClockComparison& last);

}  // namespace keelson
