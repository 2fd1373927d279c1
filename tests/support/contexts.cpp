#include "tests/support/contexts.hpp"

#include <gtest/gtest.h>

#include <map>

#include "backends/registry.hpp"

namespace keelson::testing {

namespace {

std::map<std::string, std::unique_ptr<Context>>& made() {
  static std::map<std::string, std::unique_ptr<Context>> contexts;
  return contexts;
}

}  // namespace

void skip(const std::string& why) {
  [&] { GTEST_SKIP() << why; }();
  throw ::testing::AssertionException({::testing::TestPartResult::kSkip, __FILE__, __LINE__, why.c_str()});
}

const std::vector<std::string>& contexts() {
  static const std::vector<std::string> names = [] {
    auto list = backends::selected();  // a user's own KEELSON_BACKEND restricts the tests to it
    if (list.size() > 1) list.push_back("mix");
    std::erase(list,
               "cuda");  // the cuda backend alone makes no reorders, which the tests need to write and read operands
    return list;
  }();
  return names;
}

std::vector<std::string> backends_of(const std::string& name) {
  return name == "mix" ? backends::selected() : std::vector<std::string>{name};
}

std::vector<std::string> network_contexts() {
  std::vector<std::string> names;
  for (const auto& name : contexts())
    if (name == "kokkos" || name == "mix") names.push_back(name);
  return names;
}

Context& context(const std::string& name) {
  auto& c = made()[name];
  if (std::string why; !c && !backends::device_available(&why)) skip(why);
  if (!c) c = backends::make_context("", name == "mix" ? "" : name);
  return *c;
}

void release_contexts() { made().clear(); }

}  // namespace keelson::testing
