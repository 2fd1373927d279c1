#include "engine/plan/typed_call.hpp"

#include <algorithm>

namespace keelson::detail {

namespace {

using ops::Access;
using ops::OperandInfo;
using ops::Role;

/// The checks of one call, and the beginning of their messages.
struct Check {
  Program& program;
  const CallLabel& label;
  const ops::Primitive& primitive;
  ops::Verb verb;

  template <class... A>
  [[noreturn]] void refuse_call(Role role, fmt::format_string<A...> text, A&&... values) const {
    fail("{}: {} of {} ({}), operand {}: {}", label.node, to_string(verb), label.op, primitive.name(verb),
         to_string(role), fmt::format(text, std::forward<A>(values)...));
  }

  void size(const OperandInfo& o, BufferId id, std::size_t expected) const {
    const std::size_t found = id == no_buffer ? 0 : program.buffer(id).bytes;
    if (found < expected) refuse_call(o.role, "has {} bytes, expected {}", found, expected);
  }

  void described(const OperandInfo& o, BufferId id, const TensorDesc& desc) const {
    const TensorDesc& found = program.buffer(id).desc;
    TensorDesc expected = desc;
    if (expected.layout.is_any()) expected.layout = primitive.layout(verb, o.role);
    if (!(found == expected)) refuse_call(o.role, "is {}, expected {}", to_string(found), to_string(expected));
  }

  void operator()(const OperandInfo& o, const std::vector<BufferId>& ids) const {
    if (o.list && o.descs.size() != ids.size() && !o.descs.empty())
      refuse_call(o.role, "{} were given, expected {}", ids.size(), o.descs.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == no_buffer && !o.optional) refuse_call(o.role, "is missing");
      if (ids[i] != no_buffer && !o.descs.empty()) described(o, ids[i], o.descs[o.list ? i : 0]);
    }
    if (o.role == Role::workspace && ids[0] != no_buffer) size(o, ids[0], primitive.workspace_bytes());
    if (o.role == Role::scratch) size(o, ids[0], primitive.scratch_bytes(verb));
  }

  /// Two operands do not have buffers that the node has named after each other: "bn/mean" as variance and "bn/variance"
  /// as mean. If shapes are alike, nothing else would notice that.
  void names(const std::vector<Operand>& operands) const {
    const auto named_as = [&](const Operand& o, Role role) {
      return o.id != no_buffer && program.buffer(o.id).name == fmt::format("{}/{}", label.node, to_string(role));
    };
    for (const Operand& a : operands)
      for (const Operand& b : operands)
        if (a.role != b.role && named_as(a, b.role) && named_as(b, a.role))
          refuse_call(a.role, "is the buffer '{}', and operand {} is '{}': exchange the two", program.buffer(a.id).name,
                      to_string(b.role), program.buffer(b.id).name);
  }

  /// An operand that is written shares memory with others only if the declaration allows it.
  void sharing(const std::vector<Operand>& operands) const {
    for (std::size_t i = 0; i < operands.size(); ++i)
      for (std::size_t j = 0; j < operands.size(); ++j) {
        const Operand &a = operands[i], &b = operands[j];
        if (i == j || a.id == no_buffer || b.id == no_buffer || !a.writes()) continue;
        if (program.root(a.id) != program.root(b.id)) continue;
        if (a.in_place_of == static_cast<int>(j) || b.in_place_of == static_cast<int>(i)) continue;
        refuse_call(a.role, "shares memory with {}", to_string(b.role));
      }
  }
};

int first_of(const std::vector<Operand>& operands, Role role) {
  if (role == Role::none) return -1;
  const auto found = std::find_if(operands.begin(), operands.end(), [&](const Operand& o) { return o.role == role; });
  return found == operands.end() ? -1 : static_cast<int>(found - operands.begin());
}

}  // namespace

std::vector<Operand> check_operands(Program& program, const CallLabel& label, const ops::Primitive& primitive,
                                    ops::Verb verb, const std::vector<OperandInfo>& declared,
                                    std::vector<std::vector<BufferId>> ids) {
  const Check check{program, label, primitive, verb};
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const OperandInfo& o = declared[i];
    if (o.role == Role::scratch && ids[i][0] == no_buffer && primitive.scratch_bytes(verb) > 0) {
      const auto bytes = static_cast<std::int64_t>(primitive.scratch_bytes(verb));
      ids[i][0] = program.add(label.node + "/scratch", TensorDesc::plain({bytes}, DType::u8));
    }
    check(o, ids[i]);
    for (BufferId id : ids[i]) operands.push_back({id, o.role, o.access, first_of(operands, o.in_place_of)});
  }
  check.names(operands);
  check.sharing(operands);
  return operands;
}

}  // namespace keelson::detail
