#pragma once

#include <memory>

#include "engine/tune/captured_graph_timer.hpp"

namespace keelson::cuda {

/// The GPU of this process: work is captured, run and timed on the current instance's stream.
std::unique_ptr<CapturingDevice> make_capturing_device();

}  // namespace keelson::cuda
