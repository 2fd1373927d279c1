#include "engine/execute/call_checker.hpp"

#include <algorithm>

#include "engine/base/environment.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/printable.hpp"

namespace keelson {

namespace {

constexpr std::byte fill_byte{0xff};  // all bytes get this value: a NaN in every floating-point type

bool is_floating(DType t) { return t == DType::f32 || t == DType::f64 || is_half(t); }

bool has_fill(const std::byte* element, DType t) {
  return std::all_of(element, element + size_of(t), [](std::byte b) { return b == fill_byte; });
}

bool has_gaps(const Tensor& t) { return t.layout().is_strided() && !t.layout().is_dense(t.shape()); }

/// Calls visit(i) with the number in memory of each element of a tensor, until a call returns true. Padding counts as
/// elements, since primitives write it. Gaps between strided elements do not count.
template <class Visit>
void visit_elements(const Tensor& t, const Visit& visit) {
  const bool gaps = has_gaps(t);
  const std::int64_t count = gaps ? t.elements() : t.stored_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = gaps ? 0 : i, rest = i;
    for (int d = t.shape().rank() - 1; gaps && d >= 0; --d) {
      at += rest % t.shape()[d] * t.layout().strides()[d];
      rest /= t.shape()[d];
    }
    if (visit(at)) return;
  }
}

/// The index in memory of the first element that still has the fill value; -1: none.
std::int64_t first_fill(const Tensor& t, const std::vector<std::byte>& bytes) {
  std::int64_t first = -1;
  visit_elements(t, [&](std::int64_t i) {
    const bool found = has_fill(&bytes[static_cast<std::size_t>(i) * size_of(t.dtype())], t.dtype());
    if (found) first = i;
    return found;
  });
  return first;
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto begin = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()); };
  return begin(a) < begin(b) + b.bytes() && begin(b) < begin(a) + a.bytes();
}

}  // namespace

bool checks_calls() {
  const std::string requested = environment("KEELSON_CHECK");
  if (requested != "" && requested != "0" && requested != "1")
    refuse("the environment variable KEELSON_CHECK is '{}'; '1' (check every call of a step) or '0' is expected",
           printable(requested));
  return requested == "1";
}

std::vector<CallChecker::Use> CallChecker::uses(const Call& call, const BoundCall& bound) const {
  std::vector<Use> all(call.operands.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!bound.tensors[i]) continue;
    bool shared = false;
    for (std::size_t j = 0; j < all.size(); ++j) {
      const bool other = j != i && bound.tensors[j] && overlap(bound.tensors[i], bound.tensors[j]);
      shared = shared || (other && (call.operands[i].writes() || call.operands[j].writes()));
    }
    const ops::Access access = call.operands[i].access;
    all[i].fills = !shared && (access == ops::Access::write || access == ops::Access::scratch);
    all[i].keeps = !shared && access == ops::Access::read;
  }
  return all;
}

std::vector<std::byte> CallChecker::bytes_of(const Tensor& t) const {
  std::vector<std::byte> host(t.bytes());
  device_.copy_to_host(host.data(), t.raw(), host.size());
  return host;
}

void CallChecker::fill(const Tensor& t) {
  auto bytes = has_gaps(t) ? bytes_of(t) : std::vector<std::byte>(t.bytes());
  visit_elements(t, [&](std::int64_t i) {
    std::fill_n(&bytes[static_cast<std::size_t>(i) * size_of(t.dtype())], size_of(t.dtype()), fill_byte);
    return false;
  });
  device_.copy_from_host(t.raw(), bytes.data(), bytes.size());
}

void CallChecker::report(const Call& call, std::size_t operand, const std::string& what) const {
  const Computation& c = *call.computation();
  const Operand& o = call.operands[operand];
  fail("KEELSON_CHECK: {}: {} of {} ({}), operand {} ({}): {}", call.node, to_string(c.verb), call.op,
       c.primitive->name(c.verb), to_string(o.role), program_.buffer(o.id).name, what);
}

void CallChecker::run(std::size_t number, const BoundCall& bound) {
  const Call& call = program_.calls()[number];
  if (!call.computation()) return bound.run();
  auto all = uses(call, bound);
  bool fill_was_there = false;  // then a kernel that copies a NaN writes the same bits
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& t = bound.tensors[i];
    if (all[i].fills) fill(t);
    if (!all[i].keeps && !(t && call.operands[i].reads())) continue;
    const auto bytes = bytes_of(t);
    all[i].before = fnv1a(bytes.data(), bytes.size());
    fill_was_there = fill_was_there || (is_floating(t.dtype()) && first_fill(t, bytes) >= 0);
  }
  bound.run();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor& t = bound.tensors[i];
    const bool written = all[i].fills && call.operands[i].access == ops::Access::write && is_floating(t.dtype());
    if (!all[i].keeps && (!written || fill_was_there)) continue;
    const auto bytes = bytes_of(t);
    if (all[i].keeps && fnv1a(bytes.data(), bytes.size()) != all[i].before)
      report(call, i, "is declared as read, but the call has changed it");
    if (!written) continue;
    if (const auto at = first_fill(t, bytes); at >= 0)
      report(call, i,
             fmt::format("is declared as written, but element {} of {} in memory was not written, or is NaN because "
                         "the call reads the old value",
                         at, t.stored_elements()));
  }
}

}  // namespace keelson
