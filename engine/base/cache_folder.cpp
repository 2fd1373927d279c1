#include "engine/base/cache_folder.hpp"

#include "engine/base/environment.hpp"

namespace keelson {
namespace fs = std::filesystem;

fs::path cache_folder() {
  if (const auto own = environment("KEELSON_CACHE"); !own.empty()) return own;
  if (const auto xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "keelson";
  if (const auto home = environment("HOME"); !home.empty()) return fs::path(home) / ".cache" / "keelson";
  return {};
}

}  // namespace keelson
