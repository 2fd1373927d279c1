#pragma once

#include "engine/base/communicator.hpp"
#include "engine/base/trace.hpp"

namespace keelson {

/// The difference between this rank's clock (trace_now()) and the clock of rank 0.
struct ClockComparison {
  TraceTime at = 0;      ///< the time of the comparison, by this rank's clock
  TraceTime offset = 0;  ///< nanoseconds that rank 0's clock was ahead
  TraceTime error = 0;   ///< the largest possible error of the offset, in nanoseconds
};

/// Compares the clocks of all ranks with rank 0's clock, one rank after the other. Rank 0 answers each of 32 messages
/// with its time; the exchange with the shortest round trip is used (Cristian 1989). Rank 0 answered at some time
/// within this round trip, so the error is at most half of it. On rank 0 all members but `at` are zero. Collective.
ClockComparison compare_clocks(Communicator& ranks);

/// The time of rank 0's clock when this rank's clock shows `time`, from two comparisons of this rank: the offset
/// changes linearly between the comparisons, and is constant before and after them.
TraceTime on_first_ranks_clock(TraceTime time, const ClockComparison& first, const ClockComparison& last);

}  // namespace keelson
