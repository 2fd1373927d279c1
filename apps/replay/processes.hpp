#pragma once

#include "apps/replay/replay.hpp"

/// The two processes of a rank.
namespace keelson::replay {

void run_computation(Replay& replay, int rank);
void run_exchange(Replay& replay, int rank);

}  // namespace keelson::replay
