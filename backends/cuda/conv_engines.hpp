#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/conv.hpp"

namespace keelson::cuda {

/// How cuDNN would compute one verb of `d` on a GPU that need not be there, described in cuDNN's own words (a JSON
/// object): "fused/eng22_k2=16", the most promising first; empty where it would not. All are made ready, and those that
/// cannot be are left out. Nothing where this build has no cuDNN, or one before 9.11, which plans for present GPUs
/// only.
std::optional<std::vector<std::string>> conv_engines(std::string_view gpu, const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::cuda
