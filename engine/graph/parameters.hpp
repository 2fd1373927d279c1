#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/graph/arena.hpp"
#include "engine/graph/graph.hpp"
#include "engine/graph/instance_order.hpp"
#include "engine/ops/context.hpp"

namespace keelson {

/// A named array that is trained, or a statistic. Value and optimizer state share one layout, the one that the training
/// plan's primitive wants.
struct Parameter {
  std::string name;  ///< "conv1/weights"
  Shape shape;       ///< plain
  Init init;
  ParameterKind kind = ParameterKind::trained;
  Tensor value;  ///< empty until the first plan chooses its layout
  std::vector<Tensor>
      moments;  ///< optimizer state: momentum, or Adam's m and v; made by the training plan, zero at first
};

/// The parameters of one network in one context, shared by all its plans (training, evaluation, other batch sizes).
class Parameters {
 public:
  /// Initial values are drawn from `seed` when a plan materialises them.
  Parameters(const Graph& graph, Context& context, std::uint64_t seed);

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter& at(const std::string& name);  ///< throws Error if there is none
  std::int64_t count() const;
  Context& context() const { return context_; }
  const std::shared_ptr<Arena>& arena() { return arena_; }  ///< of all executors that are given no other
  std::uint64_t seed() const { return seed_; }
  /// What the current instance does next comes after what other instances have queued on these parameters. Executors
  /// and the functions below call it.
  void take_turn() const { order_.take_turn(context_.device().current_instance()); }

  /// Gives the parameter memory in this layout and its initial value; called once per parameter, by the first plan.
  void materialise(Parameter& p, const Layout& layout);
  /// Makes sure that `p` has `count` zeroed moments.
  void add_moments(Parameter& p, int count);

  /// Plain host copies, in row-major order, for checkpoints and tests. `which`: -1 value, 0.. moment.
  std::vector<float> get(const Parameter& p, int which = -1) const;
  void set(Parameter& p, const std::vector<float>& plain, int which = -1);

 private:
  Context& context_;
  std::uint64_t seed_;
  std::shared_ptr<Arena> arena_;
  std::deque<Parameter> parameters_;
  mutable InstanceOrder order_;
};

}  // namespace keelson
