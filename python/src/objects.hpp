#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "backends/registry.hpp"
#include "comm/communicators.hpp"
#include "engine/graph/graph.hpp"
#include "engine/graph/parameters.hpp"
#include "turns.hpp"

/// All sources see the same casters: a cast that is compiled with and without one would be two functions of one name.
///
/// What the module's classes are made of. Each object shares ownership of what it needs, so that Python may drop
/// objects in any order.
namespace keelson::python {

namespace nb = nanobind;

/// Something that has to end before MPI and Kokkos do, although Python may keep the object: shut_down() closes those
/// that are left when the interpreter ends.
class Closable {
 public:
  /// Objects are closed in the order of their stages.
  enum class Stage { work, context, communicator };
  explicit Closable(Stage stage);
  virtual ~Closable();
  Closable(const Closable&) = delete;
  virtual void close() = 0;  ///< again: no effect

 private:
  friend void shut_down(int exit_code, const std::string& message);
  Stage stage_;
};

/// A group of ranks.
struct Ranks : Closable {
  explicit Ranks(std::unique_ptr<Communicator> c) : Closable(Stage::communicator), communicator(std::move(c)) {}
  void close() override { communicator.reset(); }
  Communicator& get() const;  ///< throws Error after close()

  std::unique_ptr<Communicator> communicator;
};

/// The ranks of a Python object: None, a Communicator of this module, or one of mpi4py (through py2f()). Null for None.
/// Throws InputError for anything else. Collective.
std::shared_ptr<Ranks> ranks_of(nb::handle comm);
/// The communicator of these ranks; null where there are none.
Communicator* communicator_of(const std::shared_ptr<Ranks>& ranks);
/// All ranks of the job. Starts MPI where a launcher has started this process and nobody has done so.
std::shared_ptr<Ranks> world();
/// Ends what is left, in order, when the interpreter ends. With an exit code other than 0 the other ranks are told.
void shut_down(int exit_code, const std::string& message);
/// Whether shut_down() was called: a thread that still trains ends after its step.
bool is_ending();

/// A device with its backends, and the ranks that compute together.
struct ContextObject : Closable {
  ContextObject(const std::string& device, const std::string& backends, int threads, std::shared_ptr<Ranks> ranks);
  ~ContextObject() override { close(); }
  void close() override;
  Context& get() const;  ///< throws Error after close()
  /// What exchanges arrays of this device; null: this rank alone.
  Communicator* communicator() const { return on_device.get(); }

  std::shared_ptr<backends::Runtime> runtime;
  std::shared_ptr<Ranks> ranks;  ///< null: alone
  std::unique_ptr<Context> context;
  std::unique_ptr<Communicator> on_device;
};

/// A graph, with what checkpoints store about it.
struct Network {
  Graph graph;
  std::string name = "network";               ///< RunState::network
  std::map<std::string, std::string> config;  ///< RunState::config: what the programs need to make the network again
};

/// A value of a network.
struct Value {
  std::shared_ptr<Network> network;
  Var var;
};

/// The parameters of a network on a device. All that computes with them, or looks at their memory, takes a Turn: the
/// calls share the parameters and the arena. Their instance is their own, so that others compute beside them.
struct NetworkParameters {
  NetworkParameters(std::shared_ptr<Network> n, std::shared_ptr<ContextObject> d, std::uint64_t seed)
      : network(std::move(n)),
        device(std::move(d)),
        instance(device->get().device().make_instance()),
        values(network->graph, device->get(), seed) {}

  std::shared_ptr<Network> network;
  std::shared_ptr<ContextObject> device;
  std::shared_ptr<ExecutionInstance> instance;
  Turns turns;
  const void* computed = nullptr;  ///< the inference whose results the arena holds; null: none. Read in a turn
  Parameters values;
};

/// While one is alive, the calling thread alone computes with the parameters. Made without Python's lock.
class Turn {
 public:
  explicit Turn(NetworkParameters& parameters) : lock_(parameters.turns), scope_(*parameters.instance) {}

 private:
  const std::lock_guard<Turns> lock_;
  const InstanceScope scope_;
};

/// What `work` returns, done in a turn. Called with Python's lock; `work` is called without.
template <class Work>
auto in_turn(NetworkParameters& parameters, const Work& work) {
  const nb::gil_scoped_release release;
  const Turn turn(parameters);
  return work();
}

void bind_communicator(nb::module_& m);
void bind_context(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_nets(nb::module_& m);
void bind_parameters(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_data(nb::module_& m);
void bind_readers(nb::module_& m);
void bind_generators(nb::module_& m);
void bind_records(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_checkpoint(nb::module_& m);
void bind_trainer(nb::module_& m);
void bind_inference(nb::module_& m);
void bind_onnx(nb::module_& m);

}  // namespace keelson::python
