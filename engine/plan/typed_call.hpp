#pragma once

#include "engine/plan/program.hpp"

/// Calls made from what their primitives declare (engine/ops/operands.hpp).
namespace keelson {

/// A required operand. A call that leaves the operand out of the braces does not compile.
struct RequiredBuffer {
  /// A buffer's number converts to the operand.
  RequiredBuffer(BufferId b) : id(b) {}  // NOLINT: stands for the number
  BufferId id;                           ///< the buffer
};
/// An operand that may be absent. The plan adds scratch memory if the operand is scratch and absent.
struct OptionalBuffer {
  /// Absent, or a buffer's number, which converts to the operand.
  OptionalBuffer(BufferId b = no_buffer) : id(b) {}  // NOLINT
  BufferId id;                                       ///< the buffer; no_buffer: absent
};

/// The kind of operand structs whose fields are buffers of a program.
struct Buffers {
  /// A field for one operand.
  template <ops::Role, ops::Access, auto, ops::Role, bool Optional>
  using Operand = std::conditional_t<Optional, OptionalBuffer, RequiredBuffer>;
  /// A field for several operands.
  template <ops::Role, ops::Access, auto, ops::Role>
  using List = std::vector<BufferId>;
};

/// What a call belongs to.
struct CallLabel {
  Phase phase;           ///< part of the step
  std::string node, op;  ///< name of the node; name of the op in reports: "conv"
};

namespace detail {

/// The operands of a call, one per buffer of `ids`, checked against their declarations. Throws Error that names the
/// node, the verb and the operand if one is missing, has another shape, dtype or layout than declared, is too small,
/// is exchanged with another by the names of their buffers, or shares memory with another without leave.
std::vector<Operand> check_operands(Program& program, const CallLabel& label, const ops::Primitive& primitive,
                                    ops::Verb verb, const std::vector<ops::OperandInfo>& declared,
                                    std::vector<std::vector<BufferId>> ids);

inline void append_ids(std::vector<std::vector<BufferId>>& ids, const std::vector<BufferId>& list) {
  ids.push_back(list);
}
template <class Buffer>
void append_ids(std::vector<std::vector<BufferId>>& ids, const Buffer& buffer) {
  ids.push_back({buffer.id});
}

}  // namespace detail

/// Appends the call of the verb that `args` belong to. Throws Error, naming node, verb and operand, for operands that
/// do not fit the declaration.
template <class Op, template <class> class Args>
void append_call(Program& program, CallLabel label, std::shared_ptr<Op> op, const Args<Buffers>& args) {
  constexpr ops::Verb verb = Args<Buffers>::verb;
  std::vector<std::vector<BufferId>> ids;
  std::apply([&](const auto&... operand) { (detail::append_ids(ids, operand), ...); }, ops::fields(args));
  std::vector<std::size_t> counts;
  for (const auto& operand : ids) counts.push_back(operand.size());
  const auto declared = ops::declared_operands<Args>(op->description());
  auto operands = detail::check_operands(program, label, *op, verb, declared, std::move(ids));
  Bind bind = [op, counts](const Tensor* tensors) -> std::function<void()> {
    return [op, bound = ops::make_args<Args>(tensors, counts)] { ops::execute(*op, bound); };
  };
  program.calls().push_back({label.phase, std::move(label.node), std::move(label.op), std::move(operands),
                             Computation{std::move(op), verb, std::move(bind)}});
}

}  // namespace keelson
