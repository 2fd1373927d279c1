#include "engine/plan/independent_calls.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace keelson {

namespace {

/// For each buffer that owns memory, the levels of the last calls that read and wrote it. A call's level is above those
/// of all calls that it has to follow.
class Levels {
 public:
  explicit Levels(const Program& program) : program_(program) {}

  int add(const Call& call) {
    int level = 0;
    for (const Operand& o : call.operands) {
      if (o.id == no_buffer) continue;
      const Use& before = uses_[program_.root(o.id)];
      level = std::max(level, before.written);
      if (o.writes()) level = std::max(level, before.read);
    }
    for (const Operand& o : call.operands) {
      if (o.id == no_buffer) continue;
      Use& use = uses_[program_.root(o.id)];
      int& last = o.writes() ? use.written : use.read;
      last = std::max(last, level + 1);
    }
    return level;
  }

 private:
  struct Use {
    int read = 0, written = 0;  ///< levels that a later writer, a later reader or writer has at least
  };
  const Program& program_;
  std::map<BufferId, Use> uses_;
};

bool merges(const Call& call) {
  const Computation* c = call.computation();
  return c && c->primitive->merges(c->verb);
}

/// Reorders computations of the same steps that have no communication between them.
void gather(const Program& program, std::vector<Call>::iterator first, std::vector<Call>::iterator last, int& number) {
  Levels levels(program);
  std::vector<std::pair<int, Call>> calls;
  for (auto call = first; call != last; ++call) calls.emplace_back(2 * levels.add(*call), std::move(*call));
  for (auto& [place, call] : calls) place += merges(call) ? 0 : 1;  // of a level, first those that merge
  std::ranges::stable_sort(calls, {}, &std::pair<int, Call>::first);
  for (std::size_t i = 0; i < calls.size(); ++i, ++first) {
    auto& [place, call] = calls[i];
    if (i == 0 || calls[i - 1].first != place) ++number;
    if (place % 2 == 0) call.together = number;
    *first = std::move(call);
  }
}

}  // namespace

void gather_independent_calls(Program& program, std::size_t first) {
  auto& calls = program.calls();
  int number = 0;
  const auto communicates = [](const Call& call) { return call.communication() != nullptr; };
  for (auto begin = calls.begin() + static_cast<std::ptrdiff_t>(first); begin != calls.end();) {
    const auto stands_apart = [&](const Call& call) { return communicates(call) || !(call.every == begin->every); };
    const auto end = std::find_if(begin, calls.end(), stands_apart);
    gather(program, begin, end, number);
    begin = std::find_if_not(end, calls.end(), communicates);
  }
}

}  // namespace keelson
