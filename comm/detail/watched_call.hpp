#pragma once

#include <functional>
#include <string_view>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Calls `work` in a thread of its own, and lets the watchdog of `world` look while this thread waits for it. For calls
/// of a library that wait for other ranks by themselves and make no call of MPI. What `work` throws passes through.
/// Where the watchdog throws, `work` is left alone and may never end: it must own what it uses.
void call_watched(Communicator& world, std::string_view waiting_for, std::function<void()> work);

}  // namespace keelson::comm::detail
