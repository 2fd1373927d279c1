#pragma once

#include <string>
#include <vector>

#include "engine/ops/conv.hpp"

namespace keelson::testing {

struct ConvCase {
  std::string name, about;
  Shape src;
  std::int64_t filters = 1;
  ops::ConvParams params;

  Shape weights() const;
};

std::vector<ConvCase> conv_cases();
ConvCase conv_case(const std::string& name);

}  // namespace keelson::testing
