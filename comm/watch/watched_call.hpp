#pragma once

#include <functional>
#include <string_view>

#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// Calls `work` in a new thread. The calling thread waits for `work` under the watchdog of `world`. For calls of a
/// library that wait for other ranks and do not use MPI. Throws the exception of `work`. If the watchdog throws, `work`
/// continues and may never end, so `work` must own all data that it uses.
void call_watched(Communicator& world, std::string_view waiting_for, std::function<void()> work);

}  // namespace keelson::comm::detail
