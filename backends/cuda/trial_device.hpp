#pragma once

#include <memory>

#include "backends/detail/tuner.hpp"

namespace keelson::cuda {

/// The GPU of this process: work is recorded, run and timed on the current instance's stream.
std::unique_ptr<backends::TrialDevice> make_trial_device();

}  // namespace keelson::cuda
