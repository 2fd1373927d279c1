#include "engine/onnx/export.hpp"

#include "engine/base/error.hpp"
#include "engine/onnx/builder.hpp"

namespace keelson {

namespace {

std::string next_name(const std::string& state) { return state + "_next"; }

/// For each node, whether an output depends on it.
std::vector<bool> nodes_of_outputs(const Graph& graph) {
  const auto& nodes = graph.nodes();
  std::vector<bool> live(nodes.size());
  for (const auto& [name, node] : graph.outputs()) live[static_cast<std::size_t>(node)] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (live[i])
      for (const int src : nodes[i].srcs) live[static_cast<std::size_t>(src)] = true;
  return live;
}

/// The names of the model's inputs and outputs.
std::set<std::string> names_of_caller(const Graph& graph, const std::vector<bool>& live) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!names.insert(name).second)
      refuse("two inputs or outputs of the network are called '{}', which ONNX does not allow: give each its own name",
             name);
  };
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Graph::Node& n = graph.nodes()[i];
    if (!live[i] || !n.srcs.empty()) continue;
    add(n.name);
    if (n.is_state) add(next_name(n.name));
  }
  for (const auto& [name, node] : graph.outputs()) add(name);
  return names;
}

}  // namespace

/// Writes the nodes of the graph in order.
class OnnxExport {
 public:
  OnnxExport(const Graph& graph, const Parameters& parameters, onnx::Model& model)
      : graph_(graph),
        model_(model),
        live_(nodes_of_outputs(graph)),
        builder_(graph, parameters, model, names_of_caller(graph, live_)) {}

  void run() {
    for (int i = 0; i < std::ssize(graph_.nodes()); ++i) {
      if (!live_[static_cast<std::size_t>(i)]) continue;
      if (node(i).srcs.empty())
        builder_.add_input(i);
      else
        builder_.add_layer(i);
    }
    for (const auto& [name, i] : graph_.outputs()) add_output(name, node(i).shape, builder_.value_of(i));
    for (int i = 0; i < std::ssize(graph_.nodes()); ++i)
      if (live_[static_cast<std::size_t>(i)] && node(i).is_state) add_next_state(i);
    model_.remove_unused();
  }

 private:
  const Graph::Node& node(int i) const { return graph_.nodes()[static_cast<std::size_t>(i)]; }

  void add_output(const std::string& name, const ValueShape& shape, const std::string& value,
                  const std::string& doc = "") {
    model_.operators.push_back({name, "Identity", {value}, {name}, {}});
    model_.outputs.push_back({name, shape, doc});
  }

  void add_next_state(int state) {
    const auto found = builder_.next_states_.find(state);
    const std::string& name = node(state).name;
    if (found == builder_.next_states_.end())
      refuse("{} cannot be exported to ONNX: the layer that reads this state has not written the next one", name);
    add_output(next_name(name), node(state).shape, found->second, fmt::format("{} of the next call", name));
  }

  const Graph& graph_;
  onnx::Model& model_;
  std::vector<bool> live_;
  OnnxBuilder builder_;
};

OnnxSummary export_onnx(const Graph& graph, const Parameters& parameters, const std::filesystem::path& file,
                        const OnnxOptions& options) {
  if (graph.outputs().empty())
    refuse("the network has no output, so there is nothing to export: name a value by Graph::set_output()");
  onnx::Model model{.name = options.name, .doc = options.doc, .metadata = options.metadata};
  OnnxExport(graph, parameters, model).run();
  const auto data = onnx::write(model, file, options.largest_file);
  return {std::move(model.inputs), std::move(model.outputs), data};
}

}  // namespace keelson
