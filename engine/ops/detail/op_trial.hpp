#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/memory_parts.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/operands.hpp"

/// A run of one verb of a primitive on memory that is there for that alone, to time the verb.
namespace keelson::ops {

/// The operands of a verb, as the op's header declares them. Optional operands are there. What the declaration leaves
/// open has the size that the primitive asks for.
template <template <class> class Args, class Op>
std::vector<TensorDesc> trial_operands(const Op& op, const typename Op::Desc& desc) {
  constexpr Verb verb = Args<Tensors>::verb;
  const auto bytes = [](std::size_t count) { return TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::u8); };
  std::vector<TensorDesc> all;
  for (const OperandInfo& operand : declared_operands<Args>(desc)) {
    if (operand.descs.empty()) {
      KEELSON_EXPECT(operand.role == Role::scratch || operand.role == Role::workspace);
      all.push_back(bytes(operand.role == Role::scratch ? op.scratch_bytes(verb) : op.workspace_bytes()));
      continue;
    }
    all.push_back(operand.descs.front());
    if (all.back().layout.is_any()) all.back().layout = op.layout(verb, operand.role);
  }
  return all;
}

/// Bytes of the operands of a verb, with room between them.
template <template <class> class Args, class Op>
std::size_t trial_bytes(const Op& op, const typename Op::Desc& desc) {
  MemoryParts memory(nullptr);
  for (const TensorDesc& d : trial_operands<Args>(op, desc)) memory.take_bytes(d.bytes());
  return memory.used();
}

/// Runs the verb once on operands in `block`, of trial_bytes().
template <template <class> class Args, class Op>
void run_trial(Op& op, const typename Op::Desc& desc, void* block) {
  MemoryParts memory(block);
  std::vector<Tensor> tensors;
  for (const TensorDesc& d : trial_operands<Args>(op, desc))
    tensors.push_back(d.bytes() > 0 ? Tensor(d, memory.take_bytes(d.bytes())) : Tensor());
  execute(op, make_args<Args>(tensors.data(), std::vector<std::size_t>(tensors.size(), 1)));
}

/// Gives the operands of the verb the values on which its speed depends, if the description knows them.
template <template <class> class Args, class Op>
void fill_trial(const Op& op, const typename Op::Desc& desc, void* block) {
  MemoryParts memory(block);
  const auto descs = trial_operands<Args>(op, desc);
  const auto operands = declared_operands<Args>(desc);
  for (std::size_t i = 0; i < descs.size(); ++i) {
    void* const part = memory.take_bytes(descs[i].bytes());
    if constexpr (requires { desc.fill_workspace(part); })
      if (operands[i].role == Role::workspace) desc.fill_workspace(part);
  }
}

/// Calls `visit.template operator()<Args>()` with the operands of the verb.
template <class Op, class Visit>
auto with_operands_of(Verb verb, const Visit& visit) {
  if constexpr (requires { typename Op::template Forward<Tensors>; })
    if (verb == Verb::forward) return visit.template operator()<Op::template Forward>();
  if constexpr (requires { typename Op::template BackwardData<Tensors>; })
    if (verb == Verb::backward_data) return visit.template operator()<Op::template BackwardData>();
  if constexpr (requires { typename Op::template BackwardWeights<Tensors>; })
    if (verb == Verb::backward_weights) return visit.template operator()<Op::template BackwardWeights>();
  fail("the op has no verb {}", to_string(verb));
}

template <class Op>
std::size_t trial_bytes(const Op& op, const typename Op::Desc& desc, Verb verb) {
  return with_operands_of<Op>(verb, [&]<template <class> class Args>() { return trial_bytes<Args>(op, desc); });
}
template <class Op>
void run_trial(Op& op, const typename Op::Desc& desc, Verb verb, void* block) {
  with_operands_of<Op>(verb, [&]<template <class> class Args>() { run_trial<Args>(op, desc, block); });
}

template <class Op>
void fill_trial(const Op& op, const typename Op::Desc& desc, Verb verb, void* block) {
  with_operands_of<Op>(verb, [&]<template <class> class Args>() { fill_trial<Args>(op, desc, block); });
}

/// As often as the description says that the weights are used, 64 times at most.
void run_trial(MatMul& op, const MatMulDesc& desc, Verb verb, void* block);
std::size_t trial_bytes(const MatMul& op, const MatMulDesc& desc, Verb verb);
inline void fill_trial(const MatMul&, const MatMulDesc&, Verb, void*) {}

}  // namespace keelson::ops
