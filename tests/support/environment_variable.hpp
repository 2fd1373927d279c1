#pragma once

#include <cstdlib>
#include <string>

#include "engine/base/environment.hpp"

namespace keelson::testing {

/// An environment variable has this value while the object lives, and its old value afterwards.
class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, const char* value)
      : name_(std::move(name)), before_(environment(name_.c_str())) {
    ::setenv(name_.c_str(), value, 1);
  }
  ~EnvironmentVariable() { before_.empty() ? ::unsetenv(name_.c_str()) : ::setenv(name_.c_str(), before_.c_str(), 1); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;

 private:
  const std::string name_, before_;
};

}  // namespace keelson::testing
