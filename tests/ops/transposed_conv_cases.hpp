#pragma once

#include <string>
#include <vector>

#include "engine/ops/transposed_conv.hpp"

namespace keelson::testing {

struct TransposedConvCase {
  std::string name, about;
  Shape src;
  std::int64_t channels = 1;  ///< of the result
  ops::TransposedConvParams params;

  Shape weights() const;
  Shape dst() const { return ops::transposed_conv_dst_shape(src, params, channels); }
};

std::vector<TransposedConvCase> transposed_conv_cases();

}  // namespace keelson::testing
