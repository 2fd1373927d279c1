#include "tests/support/contexts.hpp"

#include <cstdlib>
#include <map>

#include "backends/registry.hpp"

namespace keelson::testing {

namespace {

constexpr auto variable = "KEELSON_BACKEND";

std::map<std::string, std::unique_ptr<Context>>& made() {
  static std::map<std::string, std::unique_ptr<Context>> contexts;
  return contexts;
}

/// A user's own KEELSON_BACKEND restricts the tests to it.
std::vector<std::string> backends_to_test() {
  if (const char* chosen = std::getenv(variable); chosen && *chosen) {
    std::vector<std::string> names;
    std::string list = chosen;
    for (std::size_t at = 0; at <= list.size();) {
      const auto comma = std::min(list.find(',', at), list.size());
      names.push_back(list.substr(at, comma - at));
      at = comma + 1;
    }
    return names;
  }
  return backends::available();
}

}  // namespace

const std::vector<std::string>& contexts() {
  static const std::vector<std::string> names = [] {
    auto list = backends_to_test();
    if (list.size() > 1) list.push_back("mix");
    return list;
  }();
  return names;
}

std::vector<std::string> network_contexts() {
  std::vector<std::string> names;
  for (const auto& name : contexts())
    if (name == "kokkos" || name == "mix") names.push_back(name);
  return names;
}

Context& context(const std::string& name) {
  auto& c = made()[name];
  if (!c) c = backends::make_context("cpu", name == "mix" ? "" : name);
  return *c;
}

void release_contexts() { made().clear(); }

}  // namespace keelson::testing
