#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/plan/noise_sums.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// The contents of a plan. Executors read them, and do not change them.
struct CompiledGraph {
  /// A recurrent state (Graph::state). Both buffers have the same desc.
  struct State {
    std::string name;      ///< of the state's node
    BufferId value, next;  ///< what forward reads; what forward writes for the next step
  };

  /// Order of the executors of one plan. They take turns, since primitives have memory of their own.
  struct Turns {
    std::mutex mutex;     ///< held by the executor whose turn it is
    InstanceOrder order;  ///< of the executors' work on the device
  };

  PlanOptions options;  ///< as the plan was asked for
  Context& context;     ///< where the primitives were made
  int concurrency = 0;  ///< of the execution instance that the primitives were made for
  std::unique_ptr<Turns> turns = std::make_unique<Turns>();  ///< the only part that changes
  Program program;                                           ///< buffers in their places, and the calls of a step
  bool checks_gradients = false;                             ///< as Plan::checks_gradients()
  BufferId step_params = no_buffer,                          ///< one ops::StepParams, u8
      loss_scale = no_buffer,                                ///< one ops::LossScale, u8; none without checked gradients
      weight = no_buffer,                                    ///< (batch) f32 sample weights, as the caller gives them
      loss = no_buffer,                                      ///< one f64; stays 0 for a graph without a loss
      sample_loss = no_buffer;                               ///< (batch) f32; none without PlanOptions::sample_losses
  std::map<std::string, BufferId> inputs,                    ///< by name, with the states and "weight"
      outputs;                                               ///< by name, plain
  std::map<std::string, WholeNumbers> whole_numbers;         ///< of inputs that layers read as such
  std::vector<State> states;                                 ///< in node order
  /// Whole gradients by the parameter's name, in the order in which backward makes them.
  std::vector<std::pair<std::string, BufferId>> gradients;
  std::vector<SparseGradient> sparse_gradients;  ///< gradients by rows, of all ranks
  std::int64_t gradient_floats = 0;              ///< f32 elements of the block that holds all whole gradients
  std::size_t buckets = 0;                       ///< number of gradient buckets
  Parameters::Block parameter_block;             ///< of ranks that update shards; else without places
  /// Of the parameters, with an optimizer: Parameter::own_shapes by the parameter's name. Executors may have other
  /// parameters than those that the plan was made with.
  std::map<std::string, std::map<int, Shape>> own_shapes;
  PhaseEnds phase_ends;         ///< of the program's calls
  NoiseSums noise;              ///< with PlanOptions::noise_scale
  std::uint64_t structure = 0;  ///< as Plan::structure()
};

/// Compiles a graph. docs/architecture.md, "From graph to step", describes the passes. Throws as Plan's constructor.
CompiledGraph compile(const Graph& graph, Parameters& parameters, const PlanOptions& options);

}  // namespace keelson
