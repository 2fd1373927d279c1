#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace keelson {

/// A thread for work beside the compute threads. The thread leaves signals to the main thread, has lower priority on a
/// shared core, and may run on `cpus` (empty: the CPUs of its parent). `name`: in traces, and in the system's lists of
/// threads; 15 characters at most. An exception of `work` ends the process.
std::thread start_background_thread(const char* name, std::function<void()> work, const std::vector<int>& cpus = {});

}  // namespace keelson
