#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace keelson {

/// A thread for work beside the compute threads: the thread leaves signals to the main thread, yields to compute where
/// they share a core, and may run on `cpus` (empty: where its parent may). `name`: in traces, and in the system's lists
/// of threads; 15 characters at most. What `work` throws ends the process.
std::thread start_background_thread(const char* name, std::function<void()> work, const std::vector<int>& cpus = {});

}  // namespace keelson
