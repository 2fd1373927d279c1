#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace keelson::detail {

/// A thread that decodes beside the compute threads: it leaves signals to the main thread, yields to compute where they
/// share a core, and may run on `cpus` (empty: where its parent may).
std::thread start_decoding_thread(std::function<void()> work, const std::vector<int>& cpus);

}  // namespace keelson::detail
