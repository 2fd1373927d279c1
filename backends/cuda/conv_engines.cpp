#include "backends/cuda/conv_engines.hpp"

#ifdef KEELSON_HAVE_CUDNN
#include "backends/cuda/cudnn_conv_variants.hpp"
#endif

namespace keelson::cuda {

#ifdef KEELSON_HAVE_CUDNN

std::optional<std::vector<ConvEngine>> conv_engines(std::string_view gpu, const ops::ConvDesc& d, ops::Verb verb) {
  if (CUDNN_VERSION < 91100 || cudnnGetVersion() < 91100) return {};
  const CudnnTarget target(gpu);
  std::vector<ConvEngine> all;
  for (const auto& variant : conv_variants(d, verb, target))
    for (const auto& e : variant.engines) {
      all.push_back({variant.name + e.name, e.engine, e.compiles, false, 0});
      if (e.compiles) continue;
      try {
        all.back().workspace_bytes = CudnnPlan(e, target).workspace_bytes();
        all.back().ready = true;
      } catch (const backends::Unsupported&) {
        continue;  // proposed by cuDNN, but cannot be made: the primitive skips it, too
      }
    }
  return all;
}

#else

std::optional<std::vector<ConvEngine>> conv_engines(std::string_view, const ops::ConvDesc&, ops::Verb) { return {}; }

#endif

}  // namespace keelson::cuda
