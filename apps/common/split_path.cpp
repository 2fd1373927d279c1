#include "apps/common/split_path.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "engine/base/error.hpp"

namespace keelson::app {

std::string split_path(const std::string& folder, const std::vector<std::string>& names, const std::string& option) {
  namespace fs = std::filesystem;
  if (!fs::exists(folder)) refuse("--data {}: no such folder", folder);
  for (const auto& name : names)
    if (const auto path = fs::path(folder) / name; fs::exists(path)) return path.string();
  refuse("--data {}: expected a folder {} in it; name the data with {}", folder, fmt::join(names, " or "), option);
}

}  // namespace keelson::app
