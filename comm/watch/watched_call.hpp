#pragma once

#include <functional>
#include <string_view>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Calls `work` in a thread of its own. This thread waits for it under the watchdog of `world`. For calls of a library
/// that wait for other ranks and do not use MPI. Throws what `work` throws. Where the watchdog throws, `work` goes on
/// and may never end, so it must own all that it uses.
void call_watched(Communicator& world, std::string_view waiting_for, std::function<void()> work);

}  // namespace keelson::comm::detail
