#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/conv.hpp"

namespace keelson::cuda {

/// An engine of cuDNN that is a candidate for a verb of a convolution.
struct ConvEngine {
  std::string name;             ///< "fused/eng22_k2=16": the variant, the engine, the settings
  std::int64_t engine;          ///< cuDNN's number of the engine
  bool compiles;                ///< the kernel would be compiled when the plan is made; this is not done here
  bool ready;                   ///< the plan could be made
  std::size_t workspace_bytes;  ///< if ready
};

/// Lists the candidates for one verb of `d`, the most promising first; empty if there are none. The GPU is described by
/// `gpu`, a JSON object in cuDNN's format, and need not be present. Engines that compile are listed only if a libcuda
/// is found; the toolkit's stub is enough. Returns nothing if this build has no cuDNN, or a cuDNN before 9.11, which
/// makes plans for present GPUs only.
std::optional<std::vector<ConvEngine>> conv_engines(std::string_view gpu, const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::cuda
