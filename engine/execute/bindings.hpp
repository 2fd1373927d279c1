#pragma once

#include "engine/base/communicator.hpp"
#include "engine/plan/compiled_graph.hpp"

namespace keelson {

/// A call with its operands in memory.
struct BoundCall {
  std::vector<Tensor> tensors;                       ///< in the order of the operands; an absent operand is empty
  std::function<void()> run;                         ///< executes the computation, or starts or awaits the collective
  std::vector<float> milliseconds;                   ///< one per profiled step
  std::shared_ptr<Collective> collective = nullptr;  ///< collective of a communication
};

/// The memory of one executor, and the calls of its plan bound to it.
class Bindings {
 public:
  /// Allocates the executor's own memory. Throws Error if the layout of a parameter differs from the plan's,
  /// OutOfMemory if the device has no room. All arguments must outlive the bindings.
  /// `first`: the bindings of another micro-batch that is in flight at the same time; null: there are none. These
  /// bindings have their own arena, inputs and step parameters, and share everything else with `first`, the
  /// collectives, too.
  Bindings(const CompiledGraph& compiled, Parameters& parameters, std::shared_ptr<Arena> arena,
           const Bindings* first = nullptr);

  /// Binds the calls again if the arena or the parameters have moved. Returns whether they have.
  bool refresh();
  /// Binds the calls that use this buffer, of Storage::owned, to memory of the caller.
  void move(BufferId buffer, void* data);
  std::vector<BoundCall>& calls() { return calls_; }              ///< one per call of the program, in its order
  const std::vector<BoundCall>& calls() const { return calls_; }  ///< the same, read-only
  Tensor tensor(BufferId id) const;                               ///< the memory of a buffer; empty for no_buffer
  const Tensor& gradients() const { return gradients_; }  ///< the block of all dense gradients; empty: there are none

 private:
  void allocate(const Buffer& buffer, BufferId id);
  void require_layout(const Buffer& parameter);
  void find_parameters();
  BoundCall bind(const Call& call);
  std::shared_ptr<Collective> make_collective(const CommunicationDesc& desc) const;

  bool may_have_moved(const Call& call) const;
  bool is_shared(const Buffer& buffer, BufferId id) const;

  const CompiledGraph& compiled_;
  Parameters& parameters_;
  const Bindings* first_;
  std::shared_ptr<Arena> arena_;
  int generation_ = -1;
  std::uint64_t parameters_generation_ = 0;
  Tensor parameter_block_;                                ///< Parameters::place(); empty: none
  Tensor gradients_;                                      ///< the block of all dense gradients
  std::vector<Tensor> memory_;                            ///< one per buffer that lies outside the arena
  std::vector<std::shared_ptr<Collective>> collectives_;  ///< one per channel
  std::vector<BoundCall> calls_;
};

}  // namespace keelson
