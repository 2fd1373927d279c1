#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/base/environment.hpp"

namespace keelson::testing {

/// While this object exists, algorithms are measured, and choices are kept in a separate folder, which is empty at
/// first.
class ChoiceFolder {
 public:
  explicit ChoiceFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("keelson-" + name + "-" + std::to_string(::getpid()))),
        tune_(environment("KEELSON_TUNE")),
        cache_(environment("KEELSON_CACHE")) {
    std::filesystem::remove_all(path_);
    ::setenv("KEELSON_TUNE", "on", 1);
    ::setenv("KEELSON_CACHE", path_.c_str(), 1);
  }
  ~ChoiceFolder() {
    ::setenv("KEELSON_TUNE", tune_.c_str(), 1);
    ::setenv("KEELSON_CACHE", cache_.c_str(), 1);
    std::filesystem::remove_all(path_);
  }
  ChoiceFolder(const ChoiceFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::string tune_, cache_;
};

}  // namespace keelson::testing
