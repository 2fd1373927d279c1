#include "engine/base/cache_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace keelson {
namespace {

TEST(CacheFolder, FollowsTheEnvironment) {
  const auto keep = [](const char* name) {
    const char* value = std::getenv(name);
    return std::pair(value != nullptr, std::string(value ? value : ""));
  };
  const char* names[] = {"KEELSON_CACHE", "XDG_CACHE_HOME", "HOME"};
  std::pair<bool, std::string> before[3];
  for (int i = 0; i < 3; ++i) before[i] = keep(names[i]);

  ::setenv("KEELSON_CACHE", "/scratch/k", 1);
  ::setenv("XDG_CACHE_HOME", "/scratch/x", 1);
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_folder(), "/scratch/k");
  ::unsetenv("KEELSON_CACHE");
  EXPECT_EQ(cache_folder(), "/scratch/x/keelson");
  ::setenv("XDG_CACHE_HOME", "", 1);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/keelson");
  ::unsetenv("HOME");
  EXPECT_EQ(cache_folder(), "");

  for (int i = 0; i < 3; ++i) before[i].first ? ::setenv(names[i], before[i].second.c_str(), 1) : ::unsetenv(names[i]);
}

}  // namespace
}  // namespace keelson
