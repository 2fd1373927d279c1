#include "backends/cuda/conv_engines.hpp"

#ifdef KEELSON_HAVE_CUDNN
#include "backends/cuda/cudnn_conv_variants.hpp"
#endif

namespace keelson::cuda {

#ifdef KEELSON_HAVE_CUDNN

std::optional<std::vector<std::string>> conv_engines(std::string_view gpu, const ops::ConvDesc& d, ops::Verb verb) {
  if (CUDNN_VERSION < 91100 || cudnnGetVersion() < 91100) return {};
  const CudnnTarget target(gpu);
  std::vector<std::string> names;
  for (const auto& way : conv_variants(d, verb, target))
    for (const auto& e : way.engines) try {
        names.push_back(way.name + CudnnPlan(e, target).name());
      } catch (const Error&) {
        continue;  // proposed, but it cannot be made: the primitive passes over it, too
      }
  return names;
}

#else

std::optional<std::vector<std::string>> conv_engines(std::string_view, const ops::ConvDesc&, ops::Verb) { return {}; }

#endif

}  // namespace keelson::cuda
