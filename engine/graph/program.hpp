#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/operands.hpp"

namespace keelson {

using BufferId = int;
inline constexpr BufferId no_buffer = -1;

enum class Phase : std::uint8_t { forward, backward, exchange, update };
std::string_view to_string(Phase p);

/// A piece of memory that calls read and write: placed in the arena by liveness, or bound to a tensor that lives
/// outside it.
struct Buffer {
  std::string name;  ///< "conv1/dst"
  TensorDesc desc;
  std::size_t bytes = 0;
  BufferId view_of = no_buffer;  ///< shares the memory of another buffer, with another desc
  bool keep = false;             ///< alive until the end of the program (outputs)
  Tensor external;               ///< bound here if set
  std::size_t offset = 0;        ///< in the arena, after placement
};

/// A buffer as a call uses it.
struct Operand {
  BufferId id;
  ops::Role role;
  ops::Access access;
  int in_place_of = -1;  ///< operand of the same call whose memory this one may take when nothing needs that any more

  bool reads() const { return id != no_buffer && (access == ops::Access::read || access == ops::Access::update); }
  bool writes() const { return id != no_buffer && access != ops::Access::read; }
};

/// A call's operands as tensors turned into what a step executes.
using Bind = std::function<std::function<void()>(const Tensor*)>;

/// One verb of a primitive.
struct Computation {
  std::shared_ptr<const ops::Primitive> primitive;
  ops::Verb verb = ops::Verb::forward;
  Bind bind;
};

/// Starts collectives with other ranks, or waits for them. Computations may stand between the two.
struct Communication {
  enum class Step : std::uint8_t { start, wait };
  Step step = Step::start;
  std::vector<std::shared_ptr<Collective>> collectives;
};

/// One entry of the flat list that a step runs.
struct Call {
  Phase phase;
  std::string node, op;
  std::vector<Operand> operands;
  std::variant<Computation, Communication> work;

  const Computation* computation() const { return std::get_if<Computation>(&work); }
  const Communication* communication() const { return std::get_if<Communication>(&work); }
};

/// A call with its operands in memory.
struct BoundCall {
  std::vector<Tensor> tensors;  ///< in the order of the operands; an absent one is empty
  std::function<void()> run;
  std::vector<float> milliseconds;  ///< when profiling
};

/// Buffers, calls over them, and where the buffers lie.
class Program {
 public:
  BufferId add(Buffer b);
  BufferId view(BufferId of, const TensorDesc& desc);
  Buffer& buffer(BufferId id) { return buffers_[static_cast<std::size_t>(id)]; }
  const Buffer& buffer(BufferId id) const { return buffers_[static_cast<std::size_t>(id)]; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  std::vector<Call>& calls() { return calls_; }
  const std::vector<Call>& calls() const { return calls_; }
  /// The buffer that owns the memory: follows views.
  BufferId root(BufferId id) const;

  /// Merges in-place pairs and lays all arena buffers out: largest first, each at the lowest offset free during its
  /// life; then in other orders, if that needs more than lower_bound(). Call once.
  void place();
  /// The calls with their operands in `arena` and in the external tensors.
  std::vector<BoundCall> bind(std::byte* arena) const;
  BoundCall bind(const Call& call, std::vector<Tensor> tensors) const;

  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t lower_bound() const { return lower_bound_; }
  Tensor tensor(BufferId id, std::byte* arena) const;

 private:
  struct Life {
    int first = -1, last = -1;
  };
  std::vector<Life> lives() const;
  /// Gives each buffer, in this order, the lowest offset that is free during its life; returns the end of the last.
  std::size_t place_in(const std::vector<BufferId>& order, const std::vector<Life>& life);
  void merge_in_place();

  std::vector<Buffer> buffers_;
  std::vector<Call> calls_;
  std::size_t arena_bytes_ = 0, lower_bound_ = 0;
};

}  // namespace keelson
