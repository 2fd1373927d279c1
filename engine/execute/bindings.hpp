#pragma once

#include "engine/base/communicator.hpp"
#include "engine/plan/compiled_graph.hpp"

namespace keelson {

/// A call with its operands in memory.
struct BoundCall {
  std::vector<Tensor> tensors;  ///< in the order of the operands; an absent one is empty
  std::function<void()> run;
  std::vector<float> milliseconds;  ///< when profiling
};

/// The memory of one executor, and the calls of its plan bound to it.
class Bindings {
 public:
  /// Allocates what is the executor's own and checks that the parameters lie as the plan has it.
  Bindings(const CompiledGraph& compiled, Parameters& parameters, std::shared_ptr<Arena> arena);

  /// Binds the calls anew if the arena has moved; returns whether it did.
  bool refresh();
  /// Binds the calls that read this buffer of ours to memory elsewhere.
  void move(BufferId buffer, void* data);
  std::vector<BoundCall>& calls() { return calls_; }
  const std::vector<BoundCall>& calls() const { return calls_; }
  Tensor tensor(BufferId id) const;

 private:
  void allocate(const Buffer& buffer, BufferId id);
  BoundCall bind(const Call& call);
  std::shared_ptr<Collective> make_collective(const CommunicationDesc& desc) const;

  const CompiledGraph& compiled_;
  Parameters& parameters_;
  std::shared_ptr<Arena> arena_;
  int generation_ = -1;
  Tensor gradients_;                                      ///< the block
  std::vector<Tensor> memory_;                            ///< per buffer that lies outside the arena
  std::vector<std::shared_ptr<Collective>> collectives_;  ///< per channel
  std::vector<BoundCall> calls_;
};

}  // namespace keelson
