#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/plan/collectives.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// What a plan holds and an executor reads.
struct CompiledGraph {
  /// A recurrent state: the input, and what replaces it.
  struct State {
    std::string name;
    BufferId value, next;
  };

  /// Primitives keep memory of their own, so the executors of one plan take turns.
  struct Turns {
    std::mutex mutex;
    InstanceOrder order;
  };

  PlanOptions options;
  Context& context;
  int concurrency = 0;  ///< of the execution instance that the primitives were made for
  std::unique_ptr<Turns> turns = std::make_unique<Turns>();
  Program program;
  bool checks_gradients = false;
  BufferId step_params = no_buffer, loss_scale = no_buffer, weight = no_buffer, loss = no_buffer;
  std::map<std::string, BufferId> inputs, outputs;
  std::vector<State> states;
  std::vector<std::pair<std::string, BufferId>> gradients;
  std::vector<SparseGradient> sparse_gradients;
  std::int64_t gradient_floats = 0;  ///< of the block that holds all whole ones
  std::size_t buckets = 0;
  Sections sections;  ///< forward, then backward, the end of the exchange, and the update
};

/// Compiles: see docs/architecture.md, "From graph to step".
CompiledGraph compile(const Graph& graph, Parameters& parameters, const PlanOptions& options);

}  // namespace keelson
