#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/ops/operands.hpp"
#include "engine/plan/distribution.hpp"

namespace keelson {

using BufferId = int;
inline constexpr BufferId no_buffer = -1;

enum class Phase : std::uint8_t { forward, backward, exchange, update };
std::string_view to_string(Phase p);

/// Where the memory of a buffer comes from.
enum class Storage : std::uint8_t {
  arena,      ///< shared by buffers that do not live at the same time
  owned,      ///< of each executor's own, zero at first: inputs, states, the loss, sums
  parameter,  ///< Parameter::value
  moment,     ///< Parameter::moments
  gradients,  ///< a place in the block that holds all whole gradients
};

/// A piece of memory that calls read and write.
struct Buffer {
  std::string name;  ///< "conv1/dst"
  TensorDesc desc;
  Distribution distribution = {};  ///< what its writers make of it; of the owner of the memory, not of views
  std::size_t bytes = 0;
  BufferId view_of = no_buffer;  ///< shares the memory of another buffer, with another desc
  bool keep = false;             ///< alive until the end of the program (outputs)
  Storage storage = Storage::arena;
  std::string parameter;   ///< of parameter and moment: its name
  std::size_t moment = 0;  ///< of moment: its number
  std::size_t offset = 0;  ///< bytes, in the arena (after place()) or in the block of gradients
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

/// A collective over one axis of the process grid. src and dst are what the table of CollectiveDesc says; allreduce and
/// broadcast have dst alone.
struct CommunicationDesc {
  CollectiveDesc::Kind kind = CollectiveDesc::Kind::allreduce;
  ProcessGrid::Axis axis = ProcessGrid::Axis::data;
  BufferId src = no_buffer, dst = no_buffer;
  /// Of broadcast: the root's coordinate. Of send and receive: how far the other rank is along the axis, as in
  /// ProcessGrid::neighbor. Ranks without such a neighbor do nothing. So all ranks have the same program.
  int peer = 0;
  bool periodic = false;  ///< of send and receive: the axis is a ring
  std::string label;      ///< "gradient bucket 3 (conv4/weights ... conv3/bias)"
};

/// The start or the end of a collective. Computations may stand between the two.
struct Communication {
  enum class Step : std::uint8_t { start, wait };
  CommunicationDesc desc;
  Step step = Step::start;
  int channel = 0;  ///< number of the collective within the program
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

/// Buffers, calls over them, and where the buffers lie.
class Program {
 public:
  BufferId add(Buffer b);
  BufferId add(std::string name, const TensorDesc& desc, Storage storage = Storage::arena);
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
  int channels() const { return channels_; }
  int new_channel() { return channels_++; }

  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t lower_bound() const { return lower_bound_; }

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
  int channels_ = 0;
};

}  // namespace keelson
