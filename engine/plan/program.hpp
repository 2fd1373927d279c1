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

/// The number of a buffer in its program, from 0.
using BufferId = int;
/// In place of a buffer's number: the operand is absent.
inline constexpr BufferId no_buffer = -1;

/// The parts of a step, in their order. In the exchange, behind the backward pass, the rank waits for values of other
/// ranks. Only the starts and waits of collectives may stand in another phase than the one they belong to.
enum class Phase : std::uint8_t { forward, backward, exchange, update };
std::string_view to_string(Phase p);

/// Where phases end in the list of calls: the index of the first call behind the phase. The update ends with the list.
struct PhaseEnds {
  /// End of the phase forward; of the phase backward; of the phase exchange
  std::size_t forward = 0, backward = 0, exchange = 0;
};

/// Where the memory of a buffer comes from.
enum class Storage : std::uint8_t {
  arena,      ///< shared by buffers that do not live at the same time
  owned,      ///< each executor has memory of its own, zero at first: inputs, states, the loss, sums
  parameter,  ///< Parameter::value; without a parameter's name: the block of Parameters::place()
  moment,     ///< Parameter::moments
  gradients,  ///< a place in the block that holds all whole gradients
};

/// A piece of memory that calls read and write.
struct Buffer {
  std::string name;  ///< "conv1/dst"
  TensorDesc desc;   ///< shape, dtype and layout
  /// How the ranks hold the value once all writers have run. Views have that of the buffer that owns the memory.
  Distribution distribution = {};
  std::size_t bytes = 0;             ///< size; Program::add() takes 0 as the size of `desc`
  BufferId view_of = no_buffer;      ///< shares the memory of this buffer, with another desc; no_buffer: has its own
  bool keep = false;                 ///< the value is needed until the end of the program (outputs)
  Storage storage = Storage::arena;  ///< where the memory comes from
  std::string parameter;             ///< of Storage::parameter and Storage::moment: name of the parameter
  std::size_t moment = 0;            ///< of Storage::moment: index into Parameter::moments
  /// Bytes: in the arena (after place()), in the block of gradients, or of a view in the buffer that it views.
  std::size_t offset = 0;
};

/// A buffer as a call uses it.
struct Operand {
  BufferId id;         ///< no_buffer: the operand is absent
  ops::Role role;      ///< part in the op
  ops::Access access;  ///< what the call does with the memory
  /// The operand of the same call whose memory this operand may take, if no later call reads that operand; -1: none.
  int in_place_of = -1;

  /// Whether the call reads the memory.
  bool reads() const { return id != no_buffer && (access == ops::Access::read || access == ops::Access::update); }
  /// Whether the call changes the memory; scratch memory counts.
  bool writes() const { return id != no_buffer && access != ops::Access::read; }
};

/// Makes the function that a step executes, from the call's operands in memory: a tensor for each, empty if absent.
using Bind = std::function<std::function<void()>(const Tensor*)>;

/// A verb of a primitive.
struct Computation {
  std::shared_ptr<const ops::Primitive> primitive;  ///< may be shared by several calls
  ops::Verb verb = ops::Verb::forward;              ///< forward, backward_data or backward_weights
  Bind bind;                                        ///< to be called anew when operands have moved
};

/// A collective over axes of the process grid. The table of CollectiveDesc says what src and dst hold. allreduce
/// and broadcast have only dst.
struct CommunicationDesc {
  CollectiveDesc::Kind kind = CollectiveDesc::Kind::allreduce;  ///< which collective
  /// The ranks along these axes take part, numbered as in ProcessGrid::along. Of send and receive: one axis.
  ProcessGrid::Axes axes = Distribution::batch;
  int group = 0;                              ///< of allreduce: as Distribution::group
  BufferId src = no_buffer, dst = no_buffer;  ///< what is read; what is written
  /// Of broadcast: the root's number. Of send and receive: the distance of the other rank along the axis, as in
  /// ProcessGrid::neighbor. Ranks without such a neighbor do nothing, so that all ranks have the same program.
  int peer = 0;
  bool periodic = false;           ///< of send and receive: the axis is a ring
  bool zeros = false;              ///< of receive: ranks without such a neighbor set dst to zero
  bool consumes_src = false;       ///< of reduce_scatter: as in CollectiveDesc
  Wire wire = Wire::fp32;          ///< of an allreduce of f32
  SumOrder order = SumOrder::any;  ///< of an allreduce
  std::string label;               ///< for messages: "gradient bucket 3 (conv4/weights ... conv3/bias)"
  std::string purpose = {};        ///< of a send, for reports: Exchanged::what

  /// A send or a receive, in which two ranks take part.
  bool point_to_point() const { return kind == CollectiveDesc::Kind::send || kind == CollectiveDesc::Kind::receive; }
};

/// The steps in which a call runs: step `first`, and every `period` steps from there on. The number of a step is
/// ops::StepParams::step.
struct Every {
  std::uint64_t period = 1;  ///< 1: every step from `first` on
  std::uint64_t first = 0;   ///< no earlier step

  bool always() const { return period == 1 && first == 0; }  ///< whether the call runs in all steps
  /// Whether the call runs in this step.
  bool due(std::uint64_t step) const { return step >= first && (step - first) % period == 0; }
  bool operator==(const Every&) const = default;
};

/// The start or the end of a collective. Computations may stand between the two.
struct Communication {
  /// Whether the call begins the collective, or returns when the collective has ended.
  enum class Step : std::uint8_t { start, wait };
  CommunicationDesc desc;   ///< the same for both steps
  Step step = Step::start;  ///< start or wait
  int channel = 0;          ///< number of the collective within the program; the same for both steps
};

/// One entry of the flat list that a step runs.
struct Call {
  Phase phase;                    ///< part of the step; of a communication: the phase that reads what it brings
  std::string node, op;           ///< name of the node, for reports; name of the op: "conv", "reorder"
  std::vector<Operand> operands;  ///< in the order of the op's declaration
  std::variant<Computation, Communication> work;  ///< what the call does
  /// Above 0: neighbours with the same number do not depend on each other and may run by Device::run_together().
  int together = 0;
  /// Whether the call may run at the same time as the calls behind it, on another execution instance, as
  /// overlap_weight_gradients() has found. Program::place() gives no call up to the next such call the memory of its
  /// operands.
  bool overlaps = false;
  /// In which steps the call runs; both steps of a communication alike. Of calls of the phases backward and update
  /// alone. Calls of other steps read its results from memory that is kept (Storage::owned, Storage::moment).
  Every every = {};

  /// The computation, or null for a communication.
  const Computation* computation() const { return std::get_if<Computation>(&work); }
  /// The communication, or null for a computation.
  const Communication* communication() const { return std::get_if<Communication>(&work); }
};

/// Buffers, calls over them, and where the buffers lie.
class Program {
 public:
  /// Adds a buffer. A size of 0 bytes becomes the size of the buffer's desc.
  BufferId add(Buffer b);
  /// Adds a buffer of this desc.
  BufferId add(std::string name, const TensorDesc& desc, Storage storage = Storage::arena);
  /// Adds a buffer that has the memory of another one, from byte `offset` on, with another desc. Throws Error if the
  /// desc needs more bytes than there are.
  BufferId view(BufferId of, const TensorDesc& desc, std::size_t offset = 0);
  /// Makes `inner`, a buffer of the arena that is written before `outer` is used, a part of `outer`, from byte `offset`
  /// on, so that nobody has to copy it there. Returns false if that is not possible: `inner` is already a part of
  /// another buffer, has its own memory, is kept, or would not begin at a multiple of 64 bytes. Later calls must not
  /// write to this part of `outer` if `inner` is read after them.
  bool place_inside(BufferId inner, BufferId outer, std::size_t offset);
  /// The buffer of this number. The reference is valid until the next add() or view().
  Buffer& buffer(BufferId id) { return buffers_[static_cast<std::size_t>(id)]; }
  /// The same, to read.
  const Buffer& buffer(BufferId id) const { return buffers_[static_cast<std::size_t>(id)]; }
  const std::vector<Buffer>& buffers() const { return buffers_; }  ///< by BufferId
  std::vector<Call>& calls() { return calls_; }                    ///< in the order of the step
  const std::vector<Call>& calls() const { return calls_; }        ///< the same, to read
  /// The buffer that owns the memory: follows views.
  BufferId root(BufferId id) const;
  /// Where the buffer begins in the memory of root(id), in bytes.
  std::size_t offset_in_root(BufferId id) const;
  /// Whether the buffer views a part of a larger one: it may begin at any element and have gaps that belong to others.
  bool is_part(BufferId id) const { return buffer(id).bytes < buffer(root(id)).bytes; }

  /// Whether any op can use the buffer as it is: it is no part, or a part without gaps that begins at a multiple of 64
  /// bytes.
  bool is_usable(BufferId id) const {
    const TensorDesc& d = buffer(id).desc;
    return !is_part(id) || (offset_in_root(id) % 64 == 0 && d.layout.is_dense(d.shape));
  }

  /// Merges in-place pairs and gives all arena buffers their offsets. A buffer lives from the first call that uses it
  /// to the last, and longer if that call overlaps others (Call::overlaps). The largest buffers are placed first, each
  /// at the lowest offset that is free during its life. If the arena is then larger than lower_bound(), other orders
  /// are tried, too. Call place() once, when all calls are there. Throws Error, naming call, operand and buffer, if a
  /// call reads a buffer of the arena, or a gradient, that no call before has written in the same step.
  void place();
  int channels() const { return channels_; }  ///< number of collectives so far
  int new_channel() { return channels_++; }   ///< a number for one more collective (Communication::channel)

  std::size_t arena_bytes() const { return arena_bytes_; }  ///< size of the arena; 0 before place()
  std::size_t lower_bound() const { return lower_bound_; }  ///< most arena bytes in use at one call; 0 before place()

 private:
  struct Life {
    int first = -1, last = -1;
  };
  void require_written() const;
  int end_of_overlap(int c) const;
  std::vector<Life> lives() const;
  /// Gives each buffer, in this order, the lowest offset that is free during its life; returns the end of the last.
  std::size_t place_in(const std::vector<BufferId>& order, const std::vector<Life>& life);
  bool reads_once(const Call& call, const Operand& source) const;
  void merge_in_place();

  std::vector<Buffer> buffers_;
  std::vector<Call> calls_;
  std::size_t arena_bytes_ = 0, lower_bound_ = 0;
  int channels_ = 0;
};

}  // namespace keelson
