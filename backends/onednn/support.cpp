#include "backends/onednn/support.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <limits>

namespace keelson::onednn {

using dnnl::algorithm;
using dnnl::memory;
using ops::EltwiseKind;
using ops::Role;

int primitive_threads() { return omp_get_max_threads(); }

EltwiseAlgorithm forward_algorithm(const ops::EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::identity:
      return {algorithm::eltwise_linear, 1, 0};
    // oneDNN's ReLU is a maximum that turns NaN into 0. Instead: x min(max(alpha x, 0), 1), with alpha so large that
    // every normal x > 0 reaches 1. It is also x or 0, but keeps NaN (-infinity becomes NaN).
    case EltwiseKind::relu:
      return {algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0};
    case EltwiseKind::leaky_relu:
      if (p.alpha == 0) return {algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0};
      return {algorithm::eltwise_relu, p.alpha, 0};
    case EltwiseKind::tanh:
      return {algorithm::eltwise_tanh, 0, 0};
    case EltwiseKind::sigmoid:
      return {algorithm::eltwise_logistic, 0, 0};
    case EltwiseKind::gelu:
      return {algorithm::eltwise_gelu_erf, 0, 0};
    case EltwiseKind::silu:
      return {algorithm::eltwise_swish, 1, 0};
    case EltwiseKind::elu:
      return {algorithm::eltwise_elu, p.alpha, 0};
    case EltwiseKind::softplus:
      return {algorithm::eltwise_soft_relu, 1, 0};
    case EltwiseKind::linear:
      return {algorithm::eltwise_linear, p.alpha, p.beta};
    case EltwiseKind::abs:
      return {algorithm::eltwise_abs, 0, 0};
    case EltwiseKind::exp:
      return {algorithm::eltwise_exp, 0, 0};
    case EltwiseKind::log:
      return {algorithm::eltwise_log, 0, 0};
    case EltwiseKind::power:
      return {algorithm::eltwise_pow, 1, p.alpha};
  }
  decline("oneDNN has no eltwise algorithm for {}", to_string(p));
}

EltwiseAlgorithm backward_algorithm(const ops::EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::relu:
      return {algorithm::eltwise_relu_use_dst_for_bwd, 0, 0};
    case EltwiseKind::leaky_relu:
      return {p.alpha >= 0 ? algorithm::eltwise_relu_use_dst_for_bwd : algorithm::eltwise_relu, p.alpha, 0};
    case EltwiseKind::elu:
      return {p.alpha >= 0 ? algorithm::eltwise_elu_use_dst_for_bwd : algorithm::eltwise_elu, p.alpha, 0};
    case EltwiseKind::tanh:
      return {algorithm::eltwise_tanh_use_dst_for_bwd, 0, 0};
    case EltwiseKind::sigmoid:
      return {algorithm::eltwise_logistic_use_dst_for_bwd, 0, 0};
    case EltwiseKind::exp:
      return {algorithm::eltwise_exp_use_dst_for_bwd, 0, 0};
    case EltwiseKind::power:
      // oneDNN's (3.12) gradient of x^0 is 0 also where diff_dst is NaN; that of 0 x + 1 is 0 diff_dst.
      return p.alpha == 0 ? EltwiseAlgorithm{algorithm::eltwise_linear, 0, 1} : forward_algorithm(p);
    default:
      return forward_algorithm(p);
  }
}

dnnl::primitive_attr attributes(const ops::EltwiseParams& activation) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  // Versions newer than 3.1 can exclude implementations with atomics.
  [](auto& a) {
    if constexpr (requires { a.set_deterministic(true); }) a.set_deterministic(true);
  }(attr);
  if (activation.kind != EltwiseKind::identity) {
    dnnl::post_ops post;
    if (activation.kind == EltwiseKind::sigmoid && !has_instructions(dnnl::cpu_isa::avx512_core)) {
      // Behind matrix products, oneDNN's (3.12) sigmoid for AVX2 turns NaN into 0. sigmoid(x) = (tanh(x / 2) + 1) / 2.
      post.append_eltwise(algorithm::eltwise_linear, 0.5f, 0);
      post.append_eltwise(algorithm::eltwise_tanh, 0, 0);
      post.append_eltwise(algorithm::eltwise_linear, 0.5f, 0.5f);
    } else {
      const auto a = forward_algorithm(activation);
      post.append_eltwise(a.algorithm, a.alpha, a.beta);
    }
    attr.set_post_ops(post);
  }
  return attr;
}

int implementation_rank(std::string_view implementation) {
  const auto has = [&](std::string_view part) { return implementation.find(part) != std::string_view::npos; };
  if (has("ref")) return 0;
  if (has("gemm") && !has("brg")) return 1;
  return has("avx512") || has("sve") ? 3 : 2;
}

void require_fast(const dnnl::primitive_desc_base& pd, ops::Verb verb, bool opaque) {
  if (!pd) decline("oneDNN has no {} for these shapes, layouts and dtypes", to_string(verb));
  const std::string_view name = pd.impl_info_str();
  if (!opaque && implementation_rank(name) == 0)
    decline("oneDNN has only its reference {} ({}) for these layouts", to_string(verb), name);
}

Call::Call(const LibraryPtr& library, dnnl::primitive primitive, const dnnl::primitive_desc_base& pd, double flops)
    : library_(library), primitive_(std::move(primitive)), name_(pd.impl_info_str()), flops_(flops) {
  const auto md = pd.scratchpad_desc();
  scratch_bytes_ = md.get_size();
  if (!scratch_bytes_) return;
  scratch_ = memory(md, library_->engine, DNNL_MEMORY_NONE);
  add(DNNL_ARG_SCRATCHPAD, scratch_);
}

Call& Call::bind(Role role, int argument, const memory::desc& md, const TensorDesc& tensor) {
  operands_.push_back({role, true, tensor, memory(md, library_->engine, DNNL_MEMORY_NONE)});
  add(argument, operands_.back().memory);
  return *this;
}

Call& Call::bind_bytes(int argument, const memory::desc& md) {
  const auto bytes = static_cast<std::int64_t>(md.get_size());
  operands_.push_back(
      {Role::src, false, TensorDesc::plain({bytes}, DType::u8), memory(md, library_->engine, DNNL_MEMORY_NONE)});
  add(argument, operands_.back().memory);
  return *this;
}

Call& Call::own_scratch() {
  if (!scratch_bytes_) return *this;
  own_scratch_ = library_->device.allocate(scratch_bytes_, "onednn scratch of " + name_);
  point(scratch_, own_scratch_.get());
  return *this;
}

void Call::point(const memory& memory, void* data) const {
  const auto status = dnnl_memory_set_data_handle(memory.get(), data);
  if (status != dnnl_success) fail("oneDNN {}: cannot set an operand's address: {}", name_, dnnl_status2str(status));
}

// Calls the C function, since the C++ execute() allocates an argument list for each call.
void Call::run(const Tensor* const* operands, std::size_t count, const Tensor* scratch) {
  KEELSON_EXPECT(primitive_ && count == operands_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& expected = operands_[i];
    const auto& given = *operands[i];
    if (!given || (expected.shaped ? !(given.desc() == expected.tensor) : given.bytes() < expected.tensor.bytes()))
      fail("oneDNN {}: operand {} is {}, expected {}", name_, i, given ? to_string(given.desc()) : "an empty tensor",
           to_string(expected.tensor));
    point(expected.memory, given.raw());
  }
  if (scratch_bytes_ && !own_scratch_) {
    if (!scratch || !*scratch || scratch->bytes() < scratch_bytes_)
      fail("oneDNN {}: needs {} bytes of scratch, got {}", name_, scratch_bytes_,
           scratch && *scratch ? scratch->bytes() : 0);
    point(scratch_, scratch->raw());
  }
  const auto stream = library_->stream.get();
  auto status =
      dnnl_primitive_execute(primitive_.get(), stream, static_cast<int>(arguments_.size()), arguments_.data());
  if (status == dnnl_success) status = dnnl_stream_wait(stream);
  if (status != dnnl_success) fail("oneDNN {} failed: {}", name_, dnnl_status2str(status));
}

const TensorDesc* Call::find(Role role) const {
  const auto primal = [](Role r) {
    switch (r) {
      case Role::diff_src:
        return Role::src;
      case Role::diff_weights:
        return Role::weights;
      case Role::diff_bias:
        return Role::bias;
      case Role::diff_dst:
        return Role::dst;
      default:
        return r;
    }
  };
  const Operand* found = nullptr;
  for (const auto& o : operands_) {
    if (!o.shaped) continue;
    if (o.role == role) return &o.tensor;
    if (!found && primal(o.role) == primal(role)) found = &o;
  }
  return found ? &found->tensor : nullptr;
}

ops::Cost Call::cost() const {
  ops::Cost c{flops_, 0};
  for (const auto& o : operands_) c.bytes += static_cast<double>(o.tensor.used_bytes());
  return c;
}

bool has_instructions(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<int>(wanted);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace keelson::onednn
