#include "engine/layers/weighted.hpp"

#include "engine/ops/bias_gradient.hpp"

namespace keelson {

void bias_gradient(BackwardBuilder& b, BufferId diff) {
  if (!b.desc(diff).layout.is_strided()) diff = b.in_layout(diff, Layout::channels_last(b.desc(diff).shape));
  const std::shared_ptr<ops::BiasGradient> op = b.make(ops::BiasGradientDesc{b.desc(diff)});
  b.backward_weights(op, {.diff_dst = diff, .diff_bias = b.new_gradient("bias", Layout::any())}, "bias");
  b.finish_gradients();
}

}  // namespace keelson
