#include "network_change.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "casters.hpp"

namespace keelson::python {
namespace {

/// Per dimension of a parameter the old indices; None: as they were.
using Indices = std::vector<std::optional<std::vector<std::int64_t>>>;
/// By parameter: the indices, or the name of the old parameter and the indices.
using Given = std::map<std::string, std::variant<Indices, std::pair<std::string, Indices>>>;

ParameterMaps maps_of(const Given& given) {
  ParameterMaps maps;
  for (const auto& [name, map] : given) {
    if (const auto* const indices = std::get_if<Indices>(&map))
      maps[name] = {"", *indices};
    else
      maps[name] = {std::get<1>(map).first, std::get<1>(map).second};
  }
  return maps;
}

Graph copy_of(const Graph& graph) { return with_widths(graph, Topology(graph)); }

std::map<std::string, std::vector<float>> values_of(const Graph& graph, const nb::dict& given) {
  std::map<std::string, std::vector<float>> values;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto array = host_array(value, name);
    require_dtype(array, DType::f32, name);
    const auto& parameters = graph.parameters();
    const auto found = std::ranges::find_if(parameters, [&](const auto& p) { return p.name == name; });
    if (found == parameters.end()) refuse("values: the new network has no parameter '{}'", name);
    if (!(found->shape == array.shape))
      refuse("values: {} has the shape {}. Expected {}", name, shape_text(array.shape), shape_text(found->shape));
    auto& plain = values[name];
    plain.resize(static_cast<std::size_t>(array.shape.elements()));
    copy_dense(array, -1, false, plain.data());
  }
  return values;
}

/// A change as Python holds it. The trainer gets a copy.
struct Change {
  std::shared_ptr<Network> network;
  ParameterMaps maps;
  std::map<std::string, std::vector<float>> values;
  std::string text;
};

nb::object index_list(const IndexMap& map) { return map ? nb::cast(*map) : nb::none(); }

}  // namespace

std::function<std::optional<NetworkChange>(const RunState&, const Parameters&)> change_of(
    nb::handle function, std::shared_ptr<NetworkParameters> parameters) {
  // The function object can only be destroyed with the GIL.
  const std::shared_ptr<nb::object> held(new nb::object(nb::borrow(function)), [](nb::object* f) {
    const nb::gil_scoped_acquire acquire;
    delete f;
  });
  return [held, parameters](const RunState& state, const Parameters&) -> std::optional<NetworkChange> {
    const nb::gil_scoped_acquire acquire;
    const nb::object result = (*held)(RunState(state), parameters);
    if (result.is_none()) return std::nullopt;
    const Change* change = nullptr;
    if (!nb::try_cast(result, change))
      refuse("change_network returned a {}. Expected None or a keelson.NetworkChange",
             nb::type_name(result.type()).c_str());
    NetworkChange made{copy_of(change->network->graph), change->maps};
    made.values = change->values;
    made.text = change->text;
    return made;
  };
}

std::shared_ptr<NetworkParameters> remapped(NetworkParameters& parameters, std::shared_ptr<Network> network,
                                            const ParameterMaps& maps) {
  return in_turn(parameters, [&] {
    Parameters values = parameters.values.remap(network->graph, maps);
    auto made = std::make_shared<NetworkParameters>(network, parameters.device, values.seed());
    made->values = std::move(values);
    return made;
  });
}

void bind_network_change(nb::module_& m) {
  nb::class_<Change>(
      m, "NetworkChange",
      "Another network to train from an epoch on: what the function change_network= of a Trainer returns.\n\n"
      "graph: the new network, with the inputs, the loss and the outputs that data and metrics need. maps: where its\n"
      "parameters come from, as in Parameters.remap(). values: new values (arrays) of parameters by name; all others "
      "are\n"
      "copies. text: for people, what changes. keelson.change_channels() makes changes.")
      .def(
          "__init__",
          [](Change* self, const std::shared_ptr<Network>& graph, const Given& maps, const nb::dict& values,
             const std::string& text) {
            new (self) Change{graph, maps_of(maps), values_of(graph->graph, values), text};
          },
          nb::arg("graph"), nb::kw_only(), nb::arg("maps") = Given(), nb::arg("values") = nb::dict(),
          nb::arg("text") = "")
      .def_ro("graph", &Change::network, "The new network.")
      .def_rw("text", &Change::text, "For people: what changes.")
      .def_prop_ro(
          "maps",
          [](const Change& c) {
            nb::dict all;
            for (const auto& [name, map] : c.maps) {
              nb::list indices;
              for (const auto& i : map.indices) indices.append(index_list(i));
              all[name.c_str()] = nb::make_tuple(map.from.empty() ? name : map.from, indices);
            }
            return all;
          },
          nb::sig("def maps(self) -> dict[str, tuple[str, list[list[int] | None]]]"),
          "By parameter: the parameter that it comes from, and per dimension the old index of each new one.");
  m.def(
      "change_channels",
      [](const std::shared_ptr<Network>& graph, const KeptChannels& channels) {
        auto change = change_channels(graph->graph, channels);
        return Change{std::make_shared<Network>(std::move(change.graph), graph->name, graph->config),
                      std::move(change.maps),
                      {},
                      ""};
      },
      nb::arg("graph"), nb::arg("channels"),
      "The network whose nodes have other channels (units of dense layers), as a NetworkChange. channels: by node the\n"
      "old channel of each new one, or -1 for a new channel: {'conv1': [0, 2, 3]} removes channel 1. Layers that read\n"
      "these nodes follow. Raises InputError for layers that mix channels in a way that is not known.");
  auto parameters = nb::borrow<nb::class_<NetworkParameters>>(m.attr("Parameters"));
  parameters.def(
      "remap",
      [](NetworkParameters& p, std::shared_ptr<Network> graph, const Given& maps) {
        return remapped(p, std::move(graph), maps_of(maps));
      },
      nb::arg("graph"), nb::arg("maps") = Given(),
      "The parameters of another graph, with the values and the optimizer's arrays of these: of the parameters of the\n"
      "same names, or as `maps` says. maps: by the name of a new parameter a list with the old index of each new "
      "index,\n"
      "-1: new, for each dimension (None: as it was), or a tuple of the old name and such a list. What is new gets "
      "the\n"
      "values that its Init gives. Raises InputError for a shape that has changed without a map.");
}

}  // namespace keelson::python
