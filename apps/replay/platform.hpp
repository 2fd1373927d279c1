#pragma once

#include <simgrid/forward.h>

#include <vector>

#include "apps/bench/scale/machine.hpp"

namespace keelson::replay {

/// Builds the part of the machine that `ranks` ranks need, for SimGrid. Returns the host of each rank; ranks are in the
/// order of their nodes.
///
/// Many ranks share the cables of a node or a group. There, each message gets one rank's share of the bandwidth: all
/// ranks send the same and at about the same time, so the shares of other ranks are never free. Hence only the messages
/// of one rank share a link. If all messages shared the cables, the simulation would have to divide the bandwidth of
/// the whole machine again whenever a message begins or ends, which takes hours with thousands of ranks.
std::vector<simgrid::s4u::Host*> make_platform(const bench::Machine& machine, int ranks);

}  // namespace keelson::replay
