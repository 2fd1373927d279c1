#include "engine/plan/recompute.hpp"

#include <algorithm>
#include <utility>

#include "engine/ops/batch_norm.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/eltwise.hpp"

namespace keelson {
namespace {

template <class... Ops>
bool is_one_of(const ops::Primitive& p) {
  return ((dynamic_cast<const Ops*>(&p) != nullptr) || ...);
}

/// Sums are not among the cheap ops: residual connections make one long chain of sums, and all of them would have to be
/// made again for the last one.
bool is_cheap(const Call& call) {
  const Computation* c = call.computation();
  return call.phase == Phase::forward && c && c->verb == ops::Verb::forward &&
         is_one_of<ops::BatchNorm, ops::Concat, ops::Dropout, ops::Eltwise, ops::Reorder>(*c->primitive);
}

class Recomputation {
 public:
  explicit Recomputation(Program& program) : program_(program), calls_(program.calls()) {}

  void run() {
    find_uses();
    choose();
    std::vector<Call> all;
    for (int c = 0; c < static_cast<int>(calls_.size()); ++c) {
      Call call = calls_[c];
      if (call.phase != Phase::forward)
        for (Operand& o : call.operands)
          if (o.reads() && value(o.id).chosen) o.id = made_again(o.id, c, all);
      all.push_back(std::move(call));
    }
    program_.calls() = std::move(all);
  }

 private:
  /// The uses of a buffer that owns its memory.
  struct Value {
    int writer = -1, writers = 0;  ///< the last call that writes it; number of such calls
    int first_backward = -1;       ///< the first call behind the forward pass that reads it
    int last = -1;                 ///< the last call that uses it
    bool chosen = false;
    BufferId again = no_buffer;
  };

  Value& value(BufferId id) {
    values_.resize(program_.buffers().size());  // made_again() adds buffers
    return values_[static_cast<std::size_t>(program_.root(id))];
  }

  void find_uses() {
    for (int c = 0; c < static_cast<int>(calls_.size()); ++c)
      for (const Operand& o : calls_[c].operands) {
        if (o.id == no_buffer) continue;
        Value& v = value(o.id);
        v.last = c;
        if (o.writes()) v.writer = c, ++v.writers;
        if (o.reads() && calls_[c].phase != Phase::forward && v.first_backward < 0) v.first_backward = c;
      }
  }

  /// Whether one cheap call alone writes this buffer, and has no other result. Not for partial values: a later pass
  /// replaces such a value by the sum over the ranks.
  bool can_be_made_again(BufferId root) {
    const Value& v = value(root);
    const Buffer& b = program_.buffer(root);
    if (v.writers != 1 || b.storage != Storage::arena || b.keep || b.distribution.is_partial() ||
        !is_cheap(calls_[v.writer]))
      return false;
    const auto& operands = calls_[v.writer].operands;
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Operand& o) { return !o.writes() || o.role == ops::Role::scratch || o.id == root; });
  }

  /// Whether the value is in memory at call `at` without living longer than now, or can be made again then.
  bool available(BufferId root, int at) {
    const Value& v = value(root);
    if (program_.buffer(root).storage != Storage::arena || v.chosen || v.last >= at) return true;
    return can_be_made_again(root) && sources_available(v.writer, at);
  }

  bool sources_available(int call, int at) {
    const auto& operands = calls_[call].operands;
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Operand& o) { return !o.reads() || available(program_.root(o.id), at); });
  }

  void choose() {
    for (int c = 0; c < static_cast<int>(calls_.size()); ++c) {
      if (!is_cheap(calls_[c])) continue;
      for (const Operand& o : calls_[c].operands) {
        if (!o.writes() || o.role == ops::Role::scratch) continue;
        Value& v = value(o.id);
        v.chosen = v.first_backward >= 0 && o.id == program_.root(o.id) && can_be_made_again(o.id) &&
                   sources_available(c, v.first_backward);
      }
    }
  }

  /// The buffer that replaces `id` at call `at`. Appends the calls that make it.
  BufferId made_again(BufferId id, int at, std::vector<Call>& calls) {
    const BufferId root = program_.root(id);
    if (value(root).again == no_buffer) {
      Call call = calls_[value(root).writer];
      call.phase = Phase::backward;
      call.op += " again";
      for (Operand& o : call.operands) {
        if (o.id == no_buffer) continue;
        const BufferId source = program_.root(o.id);
        if (o.writes())
          o.id = copy_of(o.id);
        else if (program_.buffer(source).storage == Storage::arena && (value(source).chosen || value(source).last < at))
          o.id = made_again(o.id, at, calls);
        if (source == root) value(root).again = o.id;
      }
      calls.push_back(std::move(call));
    }
    const BufferId again = value(root).again;
    return id == root ? again : program_.view(again, TensorDesc(program_.buffer(id).desc), program_.offset_in_root(id));
  }

  BufferId copy_of(BufferId id) {
    Buffer b = program_.buffer(id);
    b.name += " again";
    return program_.add(std::move(b));
  }

  Program& program_;
  const std::vector<Call> calls_;  ///< before the pass
  std::vector<Value> values_;      ///< by buffer
};

}  // namespace

void recompute_cheap_values(Program& program) { Recomputation(program).run(); }

}  // namespace keelson
