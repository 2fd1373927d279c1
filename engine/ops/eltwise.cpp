#include "engine/ops/eltwise.hpp"

namespace keelson::ops {

std::string to_string(const EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::identity:
      return "identity";
    case EltwiseKind::relu:
      return "relu";
    case EltwiseKind::leaky_relu:
      return fmt::format("leaky_relu({})", p.alpha);
    case EltwiseKind::tanh:
      return "tanh";
    case EltwiseKind::sigmoid:
      return "sigmoid";
    case EltwiseKind::gelu:
      return "gelu";
    case EltwiseKind::silu:
      return "silu";
    case EltwiseKind::elu:
      return fmt::format("elu({})", p.alpha);
    case EltwiseKind::softplus:
      return "softplus";
    case EltwiseKind::linear:
      return fmt::format("linear({}, {})", p.alpha, p.beta);
    case EltwiseKind::abs:
      return "abs";
    case EltwiseKind::exp:
      return "exp";
    case EltwiseKind::log:
      return "log";
    case EltwiseKind::power:
      return fmt::format("power({})", p.alpha);
  }
  fail("unknown element-wise function number {}", static_cast<int>(p.kind));
}

}  // namespace keelson::ops
