#pragma once

#include <string>
#include <vector>

#include "engine/plan/node_builder.hpp"

/// Communication as calls of a program.
namespace keelson {

/// The start of a collective, checked. Throws Error, naming the node, if an operand is missing, has a dtype that
/// cannot be summed, or has a size that does not fit the number of ranks. Does not append the call to the program.
Call start_of(CompileState& build, CallLabel label, const CommunicationDesc& desc);
/// The call that waits for the collective of `start`: the same call with Step::wait.
Call end_of(Call start);

/// Values that are exchanged together: adjacent parts of one buffer.
struct Bucket {
  BufferId whole = no_buffer;   ///< covers all parts
  std::vector<BufferId> parts;  ///< the values, in the order of their memory
  std::string node, label;  ///< "bucket 3", in reports; "gradient bucket 3 (conv4/weights ... conv3/bias)", in errors
  BufferId shard = no_buffer;  ///< this rank's part of the sums, if each rank gets a part alone
  Wire wire = Wire::fp32;      ///< of the exchange
};

/// The pass that turns partial values into replicated ones where a call reads them. It inserts an allreduce for each
/// bucket and for each partial buffer that is in no bucket. The start stands right behind the last call that writes the
/// value. The wait stands right before the first call that reads the sum, so that other calls run in between. `gathers`
/// are the starts of other collectives, for which the pass inserts start and wait in the same way.
///
/// A collective whose value is written in forward and read later starts in backward. The wait for a bucket that updates
/// read stands in the phase update, before the first of these calls: while parameters of one bucket are updated, the
/// next buckets are on their way. If the caller (Buffer::keep) reads the sum, the wait stands in the phase exchange,
/// before the computations of that phase. Sums in SumOrder::tree, and those over several
/// micro-batches, start there, too, whenever they are written. With one rank along an axis nothing is inserted for that
/// axis. Buckets of a plan with PlanOptions::lag get no sum: their copies, which append_updates() makes, are summed.
/// Returns where the phases end in the program with the inserted calls.
PhaseEnds insert_collectives(CompileState& build, const std::vector<Bucket>& buckets, const std::vector<Call>& gathers);

}  // namespace keelson
