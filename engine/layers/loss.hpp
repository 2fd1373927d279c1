#pragma once

#include <memory>

#include "engine/plan/node_builder.hpp"

namespace keelson {

/// Emits the call of a loss layer, whose first source is the prediction. The same call makes the gradient of the
/// prediction. `prediction`: description of the operand that the op reads. `target`: the source that is the target; 0:
/// the op does not read it. `sums`: the operand counts or class_sums of the op. `importance`: that operand of the op.
template <class Op>
BackwardFn plan_loss(ForwardBuilder& p, const std::shared_ptr<Op>& op, const TensorDesc& prediction,
                     BufferId sums = no_buffer, BufferId importance = no_buffer, int target = 1) {
  const BufferId src = p.converted(p.src_buffer(0), prediction.layout, prediction.dtype);
  p.set_dst(p.loss());
  const BufferId diff = p.wants_diff_src(0) ? p.new_buffer("diff_src0", prediction) : no_buffer;
  typename Op::template Forward<Buffers> args{.step_params = p.step_params(),
                                              .prediction = src,
                                              .target = target == 0 ? src : p.src_buffer(target),
                                              .weight = p.sample_weight(),
                                              .loss = p.loss(),
                                              .diff_prediction = diff,
                                              .loss_scale = p.loss_scale(),
                                              .sample_loss = p.sample_loss()};
  if constexpr (requires { args.counts; }) {
    args.counts = sums;
  } else {
    args.class_sums = sums;
    args.importance = importance;
  }
  p.forward(op, args);
  if (diff == no_buffer) return nullptr;
  return [diff](BackwardBuilder& b) { b.set_diff_src(0, diff); };
}

}  // namespace keelson
