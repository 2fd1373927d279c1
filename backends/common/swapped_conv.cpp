#include "backends/common/swapped_conv.hpp"

namespace keelson::backends {

namespace {

using ops::Role;
using ops::Verb;

/// The verb of the convolution that does the work of the transposed convolution's verb `v`.
Verb swapped(Verb v) {
  switch (v) {
    case Verb::forward:
      return Verb::backward_data;
    case Verb::backward_data:
      return Verb::forward;
    case Verb::backward_weights:
      return v;
  }
  return v;
}

/// The role that operand `r` has in the convolution's verb swapped(v).
Role swapped(Verb v, Role r) {
  const bool is_src = r == Role::src || r == Role::diff_src, is_dst = r == Role::dst || r == Role::diff_dst;
  if (!is_src && !is_dst) return r;
  switch (v) {
    case Verb::forward:
      return is_src ? Role::diff_dst : Role::diff_src;
    case Verb::backward_data:
      return is_src ? Role::dst : Role::src;
    case Verb::backward_weights:
      return is_src ? Role::diff_dst : Role::src;
  }
  return r;
}

}  // namespace

Layout SwappedConv::layout(Verb verb, Role role) const {
  if (role == Role::bias) return Layout::plain({d_.dst.shape[1]});
  return conv_->layout(swapped(verb), swapped(verb, role));
}

std::string SwappedConv::name(Verb verb) const { return conv_->name(swapped(verb)); }

std::string_view SwappedConv::backend_of(Verb verb) const {
  const auto inner = conv_->backend_of(swapped(verb));
  return inner.empty() ? backend() : inner;
}

std::size_t SwappedConv::scratch_bytes(Verb verb) const { return conv_->scratch_bytes(swapped(verb)); }

double SwappedConv::relative_error(Verb verb) const { return conv_->relative_error(swapped(verb)); }

ops::Cost SwappedConv::cost(Verb verb) const {
  auto cost = conv_->cost(swapped(verb));
  if (verb == Verb::forward && d_.params.bias) cost.bytes += static_cast<double>(d_.dst.shape[1]) * sizeof(float);
  return cost;
}

void SwappedConv::backward_data(const BackwardData<ops::Tensors>& args) {
  const auto& [diff_dst, weights, diff_src, scratch] = args;
  conv_->forward({diff_dst, weights, {}, diff_src, scratch});
}

void SwappedConv::backward_weights(const BackwardWeights<ops::Tensors>& args) {
  const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
  conv_->backward_weights({diff_dst, src, diff_weights, {}, scratch});
}

std::string transposed_conv_mismatch(const ops::TransposedConvDesc& d) {
  try {
    const auto wanted = ops::transposed_conv_dst_shape(d.src.shape, d.params, d.dst.shape[1]);
    if (!(wanted == d.dst.shape))
      return fmt::format("dst has shape {}, expected {}", to_string(d.dst.shape), to_string(wanted));
  } catch (const InputError& e) {
    return e.what();
  }
  Shape weights{d.src.shape[1], d.dst.shape[1] / d.params.groups};
  for (auto k : d.params.kernel) weights.push_back(k);
  if (!(weights == d.weights.shape))
    return fmt::format("weights have shape {}, expected {}", to_string(d.weights.shape), to_string(weights));
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  return "";
}

}  // namespace keelson::backends
