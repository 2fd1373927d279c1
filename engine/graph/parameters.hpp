#pragma once

#include <deque>
#include <string>
#include <vector>

#include "engine/graph/arena.hpp"
#include "engine/graph/graph.hpp"
#include "engine/graph/instance_order.hpp"
#include "engine/graph/parameter_map.hpp"
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
  /// What remap() has carried over and a plan has not put into memory yet, in plain order. Empty: `init`, and zeros.
  std::vector<float> start;
  std::vector<std::vector<float>> start_moments;  ///< one per moment
};

/// The parameters of one network in one context, shared by all its plans (training, evaluation, other batch sizes).
class Parameters {
 public:
  /// Initial values are drawn from `seed` when a plan materialises them.
  Parameters(const Graph& graph, Context& context, std::uint64_t seed);
  Parameters(Parameters&&) = default;
  /// Executors and plans on the parameters must be gone, since they refer to the old memory.
  Parameters& operator=(Parameters&&) = default;

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter& at(const std::string& name);  ///< throws Error if there is none
  /// Null if there is none.
  const Parameter* find(const std::string& name) const;
  std::int64_t count() const;
  Context& context() const { return *context_; }
  const std::shared_ptr<Arena>& arena() { return arena_; }  ///< of all executors that are given no other
  std::uint64_t seed() const { return seed_; }
  /// What the current instance does next comes after what other instances have queued on these parameters. Executors
  /// and the functions below call it.
  void take_turn() const { order_.take_turn(context_->device().current_instance()); }

  /// Gives the parameter memory in this layout and its initial value; called once per parameter, by the first plan.
  void materialise(Parameter& p, const Layout& layout);
  /// Makes sure that `p` has `count` zeroed moments.
  void add_moments(Parameter& p, int count);

  /// The parameters of another network, for units and channels that go or come. Values and moments are carried over
  /// from the parameters of the same names, or as `maps` says. Entries that are new have the values that the
  /// parameter's Init gives them in the new network, and zero moments; so do parameters that are new. Parameters that
  /// the new network has not are left out. The copies are exact, wait in host memory until a plan of the new network
  /// chooses layouts, and do not depend on these parameters.
  ///
  /// Throws InputError for a parameter that has another shape than before without a map that says which entries stay,
  /// and for maps that do not fit. Makes no collective calls.
  Parameters remap(const Graph& graph, const ParameterMaps& maps) const;

  /// Plain host copies, in row-major order, for checkpoints and tests. `which`: -1 value, 0.. moment. A value that has
  /// no memory yet is the one that the parameter will begin with.
  std::vector<float> get(const Parameter& p, int which = -1) const;
  void set(Parameter& p, const std::vector<float>& plain, int which = -1);

 private:
  /// Of `to`, whose name, shape and Init are set, from a parameter of the old network.
  void carry_over(const Parameter& from, Parameter& to, const ParameterMap& map) const;

  Context* context_;
  std::uint64_t seed_;
  std::shared_ptr<Arena> arena_;
  std::deque<Parameter> parameters_;
  mutable InstanceOrder order_;
};

}  // namespace keelson
