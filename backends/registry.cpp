#include "backends/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/composed/factory.hpp"
#include "backends/kokkos/factory.hpp"
#ifdef KEELSON_HAVE_CUDA
#include "backends/cuda/device.hpp"
#include "backends/cuda/factory.hpp"
#endif
#ifdef KEELSON_HAVE_ONEDNN
#include "backends/onednn/factory.hpp"
#endif

namespace keelson::backends {

namespace {

struct Backend {
  std::string name;
  std::unique_ptr<ops::OpFactory> (*make)(Device&);
  bool (*computes_in)(DType);
  std::string library;  ///< the library whose algorithms the device's autotuner times, and its version: "-onednn-3.7.1"
};

/// The types of operands in memory that kernels support on every processor; kernels compute in f32.
bool is_value_type(DType type) { return type == DType::f32 || is_half(type); }

/// Every backend of this build, in the order in which a context asks them.
const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {
#ifdef KEELSON_HAVE_CUDA
      {"cuda", cuda::make_factory, is_value_type, ""},
#endif
#ifdef KEELSON_HAVE_ONEDNN
      {"onednn", make_onednn_factory, onednn_computes_in, "-onednn-" + onednn_version()},
#endif
      {"kokkos", make_kokkos_factory, is_value_type, ""},
  };
  return all;
}

/// The kind of device that all kernels of this build were compiled for.
#ifdef KEELSON_HAVE_CUDA
constexpr const char* built_for = "cuda";
std::unique_ptr<Device> make_device(const std::string&) { return cuda::make_device(); }
constexpr const char* advice = "for CPUs use a build without CUDA (configured with -DKEELSON_WITH_CUDA=OFF)";
#else
constexpr const char* built_for = "cpu";
std::unique_ptr<Device> make_device(const std::string& libraries) { return make_kokkos_device(libraries); }
constexpr const char* advice = "'cuda' needs a build with CUDA (./dev build --preset cuda)";
#endif

}  // namespace

std::vector<std::string> available() {
  std::vector<std::string> names;
  for (const auto& b : backends()) names.push_back(b.name);
  return names;
}

std::vector<std::string> selected(const std::string& requested) {
  const char* variable = std::getenv("KEELSON_BACKEND");
  const std::string list = !requested.empty() ? requested : variable ? variable : "";
  if (list.empty()) return available();
  std::vector<std::string> names;
  std::string_view rest = list;
  while (true) {
    const auto comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    const auto known = available();
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse("{}={}: this build has no backend '{}'; it has {} (a comma-separated list of these is expected)",
             requested.empty() ? "KEELSON_BACKEND" : "backends", list, name, fmt::join(known, ", "));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (comma == std::string_view::npos) return names;
    rest.remove_prefix(comma + 1);
  }
}

bool computes_in(const std::string& backend, DType type) {
  for (const auto& b : backends())
    if (b.name == backend) return b.computes_in(type);
  refuse("this build has no backend '{}'; it has {}", backend, fmt::join(available(), ", "));
}

std::vector<std::string> devices() { return {built_for}; }

std::unique_ptr<Context> make_context(const std::string& device, const std::string& requested_backends) {
  if (!device.empty() && device != "auto" && device != built_for)
    refuse("device '{}': this build computes on '{}'; {}", device, built_for, advice);
  if (std::string why; !device_available(&why)) refuse("device '{}': {}; {}", built_for, why, advice);
  std::vector<const Backend*> chosen;
  std::string libraries;
  for (const auto& name : selected(requested_backends))
    for (const auto& b : backends())
      if (b.name == name) {
        chosen.push_back(&b);
        libraries += b.library;
      }
  auto memory = make_device(libraries);
  std::vector<std::unique_ptr<ops::OpFactory>> factories;
  for (const Backend* b : chosen) factories.push_back(b->make(*memory));
  const bool with_kokkos = std::any_of(chosen.begin(), chosen.end(), [](auto* b) { return b->name == "kokkos"; });
  factories.push_back(composed::make_factory(*memory, with_kokkos));
  return std::make_unique<Context>(std::move(memory), std::move(factories));
}

}  // namespace keelson::backends
