#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "backends/registry.hpp"
#include "comm/communicators.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/graph/graph.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/graph/topology.hpp"
#include "turns.hpp"

/// All sources must include the same casters: a cast that is compiled with and without a caster would be two different
/// functions with the same name.
///
/// The objects behind the module's classes. Each object shares ownership of the objects that it needs, so that Python
/// may drop objects in any order.
namespace keelson::python {

namespace nb = nanobind;

/// An object that must end before MPI and Kokkos do, even if Python still refers to it. When the interpreter ends,
/// shut_down() closes the objects that are left.
class Closable {
 public:
  /// Objects are closed in the order of their stages.
  enum class Stage { work, context, communicator };
  explicit Closable(Stage stage);
  virtual ~Closable();
  Closable(const Closable&) = delete;
  virtual void close() = 0;  ///< a second call has no effect

 private:
  friend void shut_down(int exit_code, const std::string& message);
  Stage stage_;
  bool closed_at_end_ = false;  ///< by shut_down()
};

/// A group of ranks.
struct Ranks : Closable {
  explicit Ranks(std::unique_ptr<Communicator> c) : Closable(Stage::communicator), communicator(std::move(c)) {}
  void close() override { communicator.reset(); }
  Communicator& get() const;  ///< throws Error after close()

  std::unique_ptr<Communicator> communicator;
};

/// The ranks of a Python object: None, a Communicator of this module, or a communicator of mpi4py (through py2f()).
/// Null for None. Throws InputError for anything else. Collective.
std::shared_ptr<Ranks> ranks_of(nb::handle comm);
/// The communicator of these ranks; null if `ranks` is null.
Communicator* communicator_of(const std::shared_ptr<Ranks>& ranks);
/// All ranks of the job. Starts MPI if a launcher has started this process and MPI has not been started.
std::shared_ptr<Ranks> world();
/// Closes all remaining objects, in order, when the interpreter ends. If the exit code is not 0, the other ranks are
/// notified.
void shut_down(int exit_code, const std::string& message);
/// Whether shut_down() was called. A thread that still trains ends after its step.
bool is_ending();

/// A device with its backends, and the ranks that compute together.
struct ContextObject : Closable {
  ContextObject(const std::string& device, const std::string& backends, int threads, std::shared_ptr<Ranks> ranks);
  ~ContextObject() override { close(); }
  void close() override;
  Context& get() const;  ///< throws Error after close()
  /// The communicator for arrays of this device; null: only this rank.
  Communicator* communicator() const { return on_device.get(); }

  std::shared_ptr<backends::Runtime> runtime;
  std::shared_ptr<Ranks> ranks;  ///< null: only this rank
  std::unique_ptr<Context> context;
  std::unique_ptr<Communicator> on_device;
};

/// A graph, and its data for checkpoints.
struct Network {
  Graph graph;
  std::string name = "network";  ///< RunState::network
  std::map<std::string, std::string>
      config;  ///< RunState::config: texts from which the programs can make the network again
};

/// A value of a network.
struct Value {
  std::shared_ptr<Network> network;
  Var var;
};

/// The parameters of a network on a device. Every call that computes with them, or reads their memory, takes a Turn,
/// since the calls share the parameters and the arena. They have their own execution instance, so that other networks
/// can compute at the same time.
struct NetworkParameters {
  NetworkParameters(std::shared_ptr<Network> n, std::shared_ptr<ContextObject> d, std::uint64_t seed)
      : network(std::move(n)),
        device(std::move(d)),
        instance(device->get().device().make_instance()),
        values(network->graph, device->get(), seed) {}

  /// The parameters are now those of this network. Does nothing if its widths are those of `network`.
  void follow(const Graph& graph) {
    const Topology topology(graph);
    if (topology.to_text() == Topology(network->graph).to_text()) return;
    network = std::make_shared<Network>(with_widths(graph, topology), network->name, network->config);
  }

  std::shared_ptr<Network> network;  ///< another one after follow()
  std::shared_ptr<ContextObject> device;
  std::shared_ptr<ExecutionInstance> instance;
  Turns turns;
  const void* computed = nullptr;  ///< the inference whose results are in the arena; null: none. Read in a turn
  Parameters values;
};

/// While a Turn exists, only the thread that made it computes with the parameters. Made without the GIL.
class Turn {
 public:
  explicit Turn(NetworkParameters& parameters) : lock_(parameters.turns), scope_(*parameters.instance) {}

 private:
  const std::lock_guard<Turns> lock_;
  const InstanceScope scope_;
};

/// Calls `work` in a turn and returns its result. Called with the GIL; `work` is called without the GIL.
template <class Work>
auto in_turn(NetworkParameters& parameters, const Work& work) {
  const nb::gil_scoped_release release;
  const Turn turn(parameters);
  return work();
}

/// Writes the values into a file that is a checkpoint without steps. Collective. Called without the GIL.
void save_parameters(NetworkParameters& parameters, const std::filesystem::path& path);
/// Reads the values of a checkpoint. Collective. Called without the GIL.
void load_parameters(NetworkParameters& parameters, const std::filesystem::path& path);

void bind_communicator(nb::module_& m);
void bind_context(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_var(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_losses(nb::module_& m);
void bind_nets(nb::module_& m);
void bind_parameters(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_data(nb::module_& m);
void bind_readers(nb::module_& m);
void bind_generators(nb::module_& m);
void bind_records(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_checkpoint(nb::module_& m);
void bind_network_change(nb::module_& m);
void bind_trainer(nb::module_& m);
void bind_inference(nb::module_& m);
void bind_onnx(nb::module_& m);
void bind_search(nb::module_& m);
void bind_ensemble(nb::module_& m);

}  // namespace keelson::python
