#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>

#include "engine/base/ranks.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

/// An open checkpoint, and the ranks that read it.
struct OpenCheckpoint {
  OpenCheckpoint(const std::filesystem::path& path, bool best, std::shared_ptr<Ranks> r)
      : ranks(std::move(r)), reader(path, best, communicator_of(ranks)) {}
  std::shared_ptr<Ranks> ranks;
  CheckpointReader reader;
};

/// Loads values into parameters. Parameters that have no memory yet get it from their first plan, in a layout that
/// suits the plan. In that case the values are read into other parameters with plain layouts, and become the initial
/// values.
void load(const OpenCheckpoint& checkpoint, NetworkParameters& parameters) {
  const Turn turn(parameters);
  auto& values = parameters.values;
  bool in_memory = true;
  for (const auto& p : values.all()) in_memory = in_memory && p.value;
  const auto& network = *parameters.network;
  if (in_memory) {
    checkpoint.reader.load(network.name, values, std::nullopt);
    return;
  }
  Parameters scratch(network.graph, values.context(), values.seed());
  for (auto& p : scratch.all()) scratch.materialise(p, Layout::plain(p.shape));
  checkpoint.reader.load(network.name, scratch, std::nullopt);
  auto from = scratch.all().begin();
  for (auto& p : values.all()) {
    auto read = scratch.get(*from++);
    if (p.value)
      values.set(p, read);
    else
      p.start = std::move(read);
  }
}

}  // namespace

void save_parameters(NetworkParameters& parameters, const std::filesystem::path& path) {
  const Turn turn(parameters);
  const auto& network = *parameters.network;
  Communicator* const ranks = parameters.device->communicator();
  RunState state;
  state.network = network.name;
  state.config = network.config;
  state.topology = Topology(network.graph).to_text();
  state.seed = parameters.values.seed();
  state.world_size = ranks ? ranks->size() : 1;
  std::optional<CheckpointCopy> copy;
  if (parameters.values.are_spread() || !ranks || ranks->rank() == 0)
    copy = copy_run(state, parameters.values, {}, ranks);
  on_first_rank(ranks, [&] { write_checkpoint(path, *copy); });
}

void load_parameters(NetworkParameters& parameters, const std::filesystem::path& path) {
  load({path, false, parameters.device->ranks}, parameters);
}

void bind_checkpoint(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<OpenCheckpoint>(m, "Checkpoint",
                             "A checkpoint of Python or of a program, open for reading. path: the file, the folder of\n"
                             "a run, or its folder of checkpoints; of a folder, the newest checkpoint is opened, or\n"
                             "with `best` the best. comm: ranks that read it together.")
      .def(
          "__init__",
          [](OpenCheckpoint* self, const std::filesystem::path& path, bool best, nb::handle comm) {
            auto ranks = ranks_of(comm);
            const nb::gil_scoped_release release;
            new (self) OpenCheckpoint(path, best, std::move(ranks));
          },
          nb::arg("path"), nb::kw_only(), nb::arg("best") = false, nb::arg("comm") = nb::none())
      .def_prop_ro(
          "path", [](const OpenCheckpoint& c) { return c.reader.path(); }, "Path of the file.")
      .def_prop_ro(
          "state", [](const OpenCheckpoint& c) { return RunState(c.reader.state()); }, "State of the run.")
      .def("load", &load, nb::arg("parameters"), Release(),
           "Writes the checkpoint's values into these parameters. Raises InputError, naming the first parameter that\n"
           "differs, if the checkpoint has another network. Collective.")
      .def("__repr__", [](const OpenCheckpoint& c) {
        return fmt::format("<keelson.Checkpoint {}: {}, step {}>", c.reader.path().string(), c.reader.state().network,
                           c.reader.state().step);
      });
}

}  // namespace keelson::python
