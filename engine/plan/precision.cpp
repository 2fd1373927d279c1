#include "engine/plan/precision.hpp"

namespace keelson {

namespace {

constexpr std::string_view names[] = {"fp32", "tf32", "bf16", "fp16"};

}  // namespace

std::string_view to_string(Precision p) { return names[static_cast<int>(p)]; }

std::vector<std::string> precisions() {
  std::vector<std::string> words{"default", "auto"};
  words.insert(words.begin(), std::begin(names), std::end(names));
  return words;
}

}  // namespace keelson
