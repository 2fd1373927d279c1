#include "engine/ops/loss.hpp"

namespace keelson::ops {

std::string_view to_string(LossKind k) {
  constexpr std::string_view names[] = {"mse", "mae", "huber", "gaussian_nll", "cross_entropy", "binary_cross_entropy",
                                        "mean"};
  return names[static_cast<int>(k)];
}

}  // namespace keelson::ops
