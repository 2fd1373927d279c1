#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/arena.hpp"
#include "engine/graph/graph.hpp"
#include "engine/graph/instance_order.hpp"
#include "engine/graph/parameter_map.hpp"
#include "engine/ops/context.hpp"

namespace keelson {

/// A named array that is trained, or a statistic. Value and optimizer state have the same layout, which the primitive
/// of the first plan chooses.
struct Parameter {
  std::string name;                             ///< "conv1/weights"
  Shape shape;                                  ///< logical shape of the whole: (O, I, kD, kH, kW), (out, in), (O)
  Init init;                                    ///< initial values
  ParameterKind kind = ParameterKind::trained;  ///< trained or statistic
  std::int64_t product_inputs = 0;              ///< as in ParameterSpec
  Tensor value;                                 ///< f32; empty until the first plan chooses the layout
  /// The elements whose moments this rank has, if the moments are in shards over ranks (OptimizerShards): numbers in
  /// the order of the memory of `value`, padding included.
  struct Shard {
    std::int64_t first = 0;  ///< number of the first element
    std::int64_t count = 0;  ///< number of elements
    bool operator==(const Shard&) const = default;
  };
  /// The rows of the array that this rank holds, if the ranks of the training hold parts of it (a layer's filters over
  /// channels, layers over stages).
  struct Part {
    int dim = 0;             ///< dimension that counts rows
    std::int64_t first = 0;  ///< number of the first row
    std::int64_t count = 0;  ///< number of rows; 0: the parameter lives on other ranks alone, here it has no memory
    bool operator==(const Part&) const = default;
  };
  /// None: this rank holds the whole array. Of value and moments alone: `shape` and the arrays of checkpoints are those
  /// of the whole. All ranks of a training have a part of the parameter, or none has one.
  std::optional<Part> part;
  /// Shape of `value`: of the part that this rank holds.
  Shape held_shape() const {
    Shape held = shape;
    if (part) held[part->dim] = part->count;
    return held;
  }
  /// Whether elements of the array are on other ranks alone.
  bool is_elsewhere() const { return part && part->count < shape[part->dim]; }
  /// Optimizer state: momentum, or Adam's m and v. f32, of the shape and layout of the value; (shard->count) if
  /// there is a shard, and none if that is empty. Moments with an entry in own_shapes are plain arrays of that shape
  /// instead. Made by the first executor of a training plan, zero at first.
  std::vector<Tensor> moments;
  /// Shapes of those moments that have another shape than the parameter, by number: see Parameters::set_own_shapes().
  /// A shape without elements: the parameter has no such moment, and Parameter::moments has an empty tensor there.
  std::map<int, Shape> own_shapes;
  /// Shape of the value (`which` -1), or of a moment, of the whole.
  const Shape& shape_of(int which) const {
    const auto own = own_shapes.find(which);
    return own == own_shapes.end() ? shape : own->second;
  }
  /// Whether the value or moment has elements: all but the moments that own_shapes says the parameter has not.
  bool has(int which) const { return shape_of(which).elements() > 0; }
  std::optional<Shard> shard;  ///< none: this rank has the moments of all elements
  /// Values that remap() has carried over and that no plan has put into device memory yet, in plain order, of the part
  /// that this rank holds. Empty: the value begins as `init` says.
  std::vector<float> start;
  std::vector<std::vector<float>> start_moments;  ///< the same for each moment; empty: zeros
};

/// The parameters of one network in one context, shared by all its plans (training, evaluation, other batch sizes).
class Parameters {
 public:
  /// Allocates nothing. Initial values are drawn from `seed` when a plan materialises a parameter. The context must
  /// outlive the parameters.
  Parameters(const Graph& graph, Context& context, std::uint64_t seed);
  /// Takes over the arrays. Executors and plans on the other object must be gone.
  Parameters(Parameters&&) = default;
  /// Executors and plans on either object must be gone, since they refer to the old memory.
  Parameters& operator=(Parameters&&) = default;

  /// All parameters and statistics, in the order of Graph::parameters().
  std::deque<Parameter>& all() { return parameters_; }
  /// The same, read-only.
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter& at(const std::string& name);  ///< throws Error if no parameter has this name
  /// Null if no parameter has this name.
  const Parameter* find(const std::string& name) const;
  std::int64_t count() const;                               ///< elements of all parameters and statistics together
  Context& context() const { return *context_; }            ///< the context in whose memory the arrays lie
  const std::shared_ptr<Arena>& arena() { return arena_; }  ///< arena of all executors that get no other arena
  std::uint64_t seed() const { return seed_; }              ///< seed of the initial values
  /// Work that the current instance queues from now on runs after the work that other instances have queued on these
  /// parameters. Executors and the functions below call take_turn().
  void take_turn() const { order_.take_turn(context_->device().current_instance()); }

  /// Says that this rank holds these rows of a parameter alone. The parameter begins with the rows of the same whole
  /// array as without parts. Does nothing if this rank already holds these. Throws Error for rows that the array does
  /// not have, and for a parameter that has memory, or another part.
  void set_part(const std::string& name, const Parameter::Part& part);
  /// Whether an array has elements that this rank does not have, in parts or in shards: then gather() alone makes
  /// copies of the whole. The same on all ranks.
  bool are_spread() const;
  /// Gives the parameter memory in this layout, of Parameter::held_shape(), and its initial value; called once per
  /// parameter, by the first plan. A part of no rows gets no memory.
  void materialise(Parameter& p, const Layout& layout);
  /// Says which moments of the parameter have another shape than the parameter (Parameter::own_shapes). Such moments
  /// are never in shards, and are those of the whole parameter. Throws InputError if a moment
  /// exists in another shape.
  void set_own_shapes(Parameter& p, std::map<int, Shape> shapes);
  /// Gives `p` `count` moments, unless they exist. The moments are zero, or those that remap() has carried over.
  void add_moments(Parameter& p, int count);

  /// Places of parameters in one block of memory.
  struct Block {
    /// Where a parameter begins.
    struct Place {
      std::string parameter;   ///< its name
      std::size_t offset = 0;  ///< bytes from the beginning of the block
      Parameter::Shard shard;  ///< of the moments on this rank
    };
    std::vector<Place> places;  ///< in the order of the memory
    std::size_t bytes = 0;      ///< size of the block
  };
  /// Moves parameters, which have memory, into one block, and cuts their moments to the shards of this rank. Returns
  /// the block's memory. Executors on these parameters follow (generation()). Does nothing if the parameters lie so
  /// already.
  Tensor place(const Block& block);
  /// Changes whenever values have moved in memory.
  std::uint64_t generation() const { return generation_; }
  /// Makes moments that are in shards whole on every rank, for example before remap(). `ranks`: those that share the
  /// shards. Collective.
  void gather_shards(Communicator& ranks);
  /// As get(), on rank 0 of `ranks`; empty on other ranks. Collective if the parameter is in parts or its moments are
  /// in shards: then `ranks` are all ranks of the training. Of the ranks that hold the same part, the first one sends
  /// it. `ranks` null: this rank alone. Throws Error, on all ranks, for parts that are not the whole, and for shards of
  /// parts.
  std::vector<float> gather(const Parameter& p, int which, Communicator* ranks) const;

  /// The parameters of another network, for networks whose units and channels are removed or added. Values and moments
  /// are copied from the parameters of the same names, or as `maps` says. Entries and parameters that are new get the
  /// values that their Init gives in the new network, and zero moments. Parameters that the new network does not have
  /// are left out, and so are moments of shapes of their own, which begin with zeros. The copies are exact and do not
  /// depend on these parameters. They stay in host memory until a plan of the new network chooses layouts.
  ///
  /// Throws InputError for a parameter whose shape has changed without a map that says which entries stay, for maps
  /// that do not fit, and for parameters in parts. Makes no collective calls.
  Parameters remap(const Graph& graph, const ParameterMaps& maps) const;

  /// A copy on the host, in row-major order, for checkpoints and tests. `which`: -1 for the value, else the number of a
  /// moment. If the value or the moment has no memory yet, the copy has the values that it will begin with. Waits for
  /// the device. Throws Error for an array that has elements on other ranks alone: see gather(). Empty for a moment
  /// that the parameter has not (Parameter::has).
  std::vector<float> get(const Parameter& p, int which = -1) const;
  /// Writes the value (`which` -1) or a moment from host memory. `plain` has all elements in row-major order, those of
  /// Parameter::shape_of(which). A value
  /// or a moment without memory will begin with these values. This rank's part and shard are written, and nothing else
  /// is kept.
  /// Throws Error for another number of elements.
  void set(Parameter& p, const std::vector<float>& plain, int which = -1);

 private:
  /// Fills `to`, whose name, shape and Init are set, from a parameter of the old network.
  void carry_over(const Parameter& from, Parameter& to, const ParameterMap& map) const;
  std::vector<float> held(const Parameter& p, int which) const;
  void set_held(Parameter& p, const std::vector<float>& plain, int which);
  std::vector<float> gather_parts(const Parameter& p, int which, Communicator& ranks) const;
  void cut_moments(Parameter& p, const Parameter::Shard& shard);
  std::vector<float> stored(const Tensor& t) const;
  std::vector<float> plain_of(const Parameter& p, const std::vector<float>& stored) const;

  Context* context_;
  std::uint64_t seed_;
  std::shared_ptr<Arena> arena_;
  std::deque<Parameter> parameters_;
  Tensor block_;  ///< of place(); empty: each parameter has memory of its own
  std::uint64_t generation_ = 0;
  mutable InstanceOrder order_;
};

}  // namespace keelson
