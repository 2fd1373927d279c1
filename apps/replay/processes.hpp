#pragma once

#include "apps/replay/replay.hpp"

/// The two processes of a rank.
namespace keelson::replay {

/// Payloads do not exist: nothing reads from this address or writes to it (see replay_main.cpp).
inline char* const no_payload = reinterpret_cast<char*>(64);

void run_computation(Replay& replay, int rank);
void run_exchange(Replay& replay, int rank);

}  // namespace keelson::replay
