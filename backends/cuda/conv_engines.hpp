#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/conv.hpp"

namespace keelson::cuda {

/// An engine of cuDNN that would be tried for a verb of a convolution.
struct ConvEngine {
  std::string name;             ///< "fused/eng22_k2=16": the way, the engine, its settings
  std::int64_t engine;          ///< cuDNN's number of it
  bool compiles;                ///< its kernel is compiled when the plan is made, which is not done here
  bool ready;                   ///< it could be made ready
  std::size_t workspace_bytes;  ///< where ready
};

/// What would be tried for one verb of `d` on a GPU that need not be there, described in cuDNN's own words (a JSON
/// object), the most promising first; empty where nothing would. Engines that compile are listed only where a libcuda
/// is found, be it the toolkit's stub. Nothing where this build has no cuDNN, or one before 9.11, which plans for
/// present GPUs only.
std::optional<std::vector<ConvEngine>> conv_engines(std::string_view gpu, const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::cuda
