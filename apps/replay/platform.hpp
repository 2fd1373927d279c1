#pragma once

#include <simgrid/forward.h>

#include <vector>

#include "apps/bench/scale/machine.hpp"

namespace keelson::replay {

/// Builds the machine for SimGrid, as far as `ranks` ranks need it. Returns the place of each rank, ranks in order of
/// their nodes.
///
/// Cables that many ranks use, a node's and a group's, give each message one rank's part of their bandwidth: all ranks
/// send alike and at about the same time, so the parts of others are never free. Hence only the messages of one rank
/// share a link, and the simulation need not share out the whole machine's cables anew with each message that begins or
/// ends, which takes hours with thousands of ranks that are not in step.
std::vector<simgrid::s4u::Host*> make_platform(const bench::Machine& machine, int ranks);

}  // namespace keelson::replay
