#include "engine/plan/overlap_messages.hpp"

#include <algorithm>

namespace keelson {
namespace {

bool is_message(const Call& call, Communication::Step step) {
  const Communication* c = call.communication();
  return c && c->desc.point_to_point() && c->step == step;
}

class Overlap {
 public:
  explicit Overlap(Program& program) : program_(program), calls_(program.calls()) {}

  void run() {
    for (std::size_t c = 0; c < calls_.size(); ++c)
      if (calls_[c].phase == Phase::backward && is_message(calls_[c], Communication::Step::start)) c = overlap(c);
  }

 private:
  /// The first call of the node whose calls end before call number `end`.
  std::size_t begin_of_node(std::size_t end) const {
    std::size_t begin = end;
    while (begin > 0 && calls_[begin - 1].node == calls_[end - 1].node && calls_[begin - 1].phase == Phase::backward)
      --begin;
    return begin;
  }

  /// Whether the two calls must stay in their order: one of them writes memory that the other one uses.
  bool depend(const Call& a, const Call& b) const {
    return std::ranges::any_of(a.operands, [&](const Operand& x) {
      return x.id != no_buffer && std::ranges::any_of(b.operands, [&](const Operand& y) {
               return y.id != no_buffer && (x.writes() || y.writes()) && program_.root(x.id) == program_.root(y.id);
             });
    });
  }
  bool depends_on_any(const Call& call, const std::vector<const Call*>& others) const {
    return std::ranges::any_of(others, [&](const Call* other) { return depend(*other, call); });
  }

  /// `start`: the first start of an exchange. Returns the number of a call behind which the search goes on.
  std::size_t overlap(std::size_t start) {
    const std::size_t exchange = begin_of_node(start + 1);
    std::size_t wait = start;
    while (wait < calls_.size() && calls_[wait].node == calls_[start].node &&
           !is_message(calls_[wait], Communication::Step::wait))
      ++wait;
    if (exchange == 0 || calls_[exchange - 1].phase != Phase::backward) return wait;
    const std::size_t layer = begin_of_node(exchange);
    std::vector<const Call*> delayed;
    for (std::size_t c = layer; c < exchange; ++c) {
      const Computation* computation = calls_[c].computation();
      if ((computation && computation->verb == ops::Verb::backward_weights) || depends_on_any(calls_[c], delayed))
        delayed.push_back(&calls_[c]);
    }
    for (std::size_t c = exchange; c < wait; ++c)
      if (depends_on_any(calls_[c], delayed)) return wait;
    const auto at = [&](std::size_t c) { return calls_.begin() + static_cast<std::ptrdiff_t>(c); };
    std::vector<bool> is_delayed(exchange - layer);
    for (const Call* c : delayed) is_delayed[static_cast<std::size_t>(c - &calls_[layer])] = true;
    std::vector<Call> later;
    std::size_t kept = layer;
    for (std::size_t c = layer; c < wait; ++c) {
      if (c < exchange && is_delayed[c - layer])
        later.push_back(std::move(calls_[c]));
      else if (kept++ != c)
        calls_[kept - 1] = std::move(calls_[c]);
    }
    std::ranges::move(later, at(kept));
    return wait;
  }

  Program& program_;
  std::vector<Call>& calls_;
};

}  // namespace

void overlap_messages(Program& program) { Overlap(program).run(); }

}  // namespace keelson
