#pragma once

#include <string>
#include <vector>

#include "engine/plan/node_builder.hpp"

/// Communication as calls of a program.
namespace keelson {

/// The start of a collective, checked: throws Error that names the node where operands are missing, are of a dtype that
/// cannot be summed, or have other sizes than the number of ranks wants.
Call start_of(CompileState& build, CallPlace place, const CommunicationDesc& desc);
/// The same call as Step::wait.
Call end_of(Call start);

/// Where the sections of a step end, as numbers of calls.
struct Sections {
  std::size_t forward_end = 0, backward_end = 0, exchange_end = 0;
};

/// Values that are exchanged together: adjacent parts of one buffer.
struct Bucket {
  BufferId whole;
  std::vector<BufferId> parts;
  std::string node, label;
};

/// The pass that turns partial values into replicated ones where a call reads them. It inserts an allreduce for each
/// bucket and for each partial buffer that is in no bucket. The start stands right behind the last call that writes the
/// value, the wait right before the first call that reads the sum, so that other calls run in between. `gathers` are
/// starts of other collectives, of which the pass does the same.
///
/// A section is complete by itself: what begins in forward and ends later, begins in backward. What an update reads, or
/// the caller (Buffer::keep), has its wait in the section exchange, before the computations there. With one rank along
/// an axis nothing is inserted for that axis.
Sections insert_collectives(CompileState& build, const std::vector<Bucket>& buckets, const std::vector<Call>& gathers);

}  // namespace keelson
