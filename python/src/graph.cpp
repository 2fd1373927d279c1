#include <fmt/format.h>

#include "arrays.hpp"
#include "casters.hpp"
#include "engine/graph/init.hpp"
#include "engine/graph/topology.hpp"
#include "objects.hpp"

namespace keelson::python {

Precision precision_of(std::string_view name) {
  return choose<Precision>(
      "precision", name,
      {{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}});
}

std::string_view numpy_name(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::s32:
      return "int32";
    case DType::u8:
      return "uint8";
    case DType::u16:
      return "uint16";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
  }
  return "";
}

DType input_dtype(std::string_view what, std::string_view name) {
  return choose<DType>(what, name, {{"float32", DType::f32}, {"int32", DType::s32}});
}

namespace {

void bind_init(nb::module_& m) {
  nb::class_<Init>(m, "Init", "How the initial values of a parameter are drawn.")
      .def_static("constant", &Init::constant, nb::arg("value"), "All entries are `value`.")
      .def_static("uniform", &Init::uniform, nb::arg("bound"), "Uniform between -bound and bound.")
      .def_static("glorot_uniform", &Init::glorot_uniform, "Uniform within +- sqrt(6 / (fan_in + fan_out)).")
      .def_static("fan_in_uniform", &Init::fan_in_uniform,
                  "Uniform within +- 1 / sqrt(fan_in), PyTorch's default for weights.")
      .def_static("he_normal", &Init::he_normal, "Normal with standard deviation sqrt(2 / fan_in).")
      .def_static("he_uniform", &Init::he_uniform, "Uniform within +- sqrt(6 / fan_in).")
      .def_static("he_truncated_normal", &Init::he_truncated_normal,
                  "Normal with standard deviation sqrt(2.6 / fan_in), cut off at two of these.");
}

/// Name -> (shape of a sample, dtype).
nb::dict inputs_of(const Network& n) {
  nb::dict inputs;
  for (const auto& node : n.graph.nodes()) {
    if (!node.srcs.empty() || node.is_state) continue;
    Shape sample;
    for (int i = 1; i < node.shape.shape.rank(); ++i) sample.push_back(node.shape.shape[i]);
    inputs[node.name.c_str()] = nb::make_tuple(sample, std::string(numpy_name(node.shape.dtype)));
  }
  return inputs;
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_init(m);
  nb::class_<Network> network(
      m, "Graph",
      "A network: nodes that function calls append (keelson.layers). A graph has no values.\n\n"
      "name: stored in checkpoints.\n"
      "config: texts by name that checkpoints store, from which the network can be made again.");
  network
      .def(
          "__init__",
          [](Network* self, const std::string& name, std::map<std::string, std::string> config) {
            new (self) Network{.graph = {}, .name = name, .config = std::move(config)};
          },
          nb::arg("name") = "network", nb::arg("config") = std::map<std::string, std::string>())
      .def(
          "input",
          [](const std::shared_ptr<Network>& n, const std::string& name, const Shape& sample,
             const std::string& dtype) {
            const DType type = input_dtype(fmt::format("dtype of the input '{}'", name), dtype);
            return Value{n, n->graph.input(name, sample, type)};
          },
          nb::arg("name"), nb::arg("sample"), nb::arg("dtype") = "float32",
          "An input that gets its values from the data. `sample`: the shape of one sample, without the batch: (4, 128, "
          "128, 128).\n"
          "`dtype`: 'float32' or 'int32' (class numbers, tokens).")
      .def(
          "state",
          [](const std::shared_ptr<Network>& n, const std::string& name, const Shape& sample) {
            return Value{n, n->graph.state(name, sample)};
          },
          nb::arg("name"), nb::arg("sample"), "A value per sample that a recurrent layer keeps from step to step.")
      .def(
          "output",
          [](Network& n, const std::string& name, const Value& v) {
            if (v.var.graph != &n.graph) refuse("the output '{}' is a value of another graph", name);
            n.graph.set_output(name, v.var);
          },
          nb::arg("name"), nb::arg("value"),
          "Makes a value an output with this name. Predictions return outputs, and metrics read them.")
      .def_prop_ro("inputs", &inputs_of, nb::sig("def inputs(self) -> dict[str, tuple[tuple[int, ...], str]]"),
                   "Inputs by name: the shape of a sample, and the dtype.")
      .def_prop_ro(
          "outputs",
          [](const Network& n) {
            std::vector<std::string> names;
            for (const auto& [name, node] : n.graph.outputs()) names.push_back(name);
            return names;
          },
          "Names of the outputs.")
      .def_prop_ro(
          "parameters",
          [](const Network& n) {
            nb::dict shapes;
            for (const auto& p : n.graph.parameters()) shapes[p.name.c_str()] = p.shape;
            return shapes;
          },
          nb::sig("def parameters(self) -> dict[str, tuple[int, ...]]"), "Shapes of the parameters by name.")
      .def_prop_ro(
          "parameter_count", [](const Network& n) { return n.graph.parameter_count(); },
          "Number of elements of all parameters that are trained.")
      .def(
          "summary", [](const Network& n) { return n.graph.summary(); }, "A line for each node, as text.")
      .def_prop_ro(
          "topology", [](const Network& n) { return Topology(n.graph).to_text(); },
          "Nodes, shapes and parameters as JSON, as checkpoints store them.")
      .def_rw("name", &Network::name, "Stored in checkpoints. The programs recognize their networks by this name.")
      .def_rw("config", &Network::config, "Stored in checkpoints.")
      .def("__repr__", [](const Network& n) {
        return fmt::format("<keelson.Graph {}: {} nodes, {} parameters>", n.name, n.graph.nodes().size(),
                           n.graph.parameter_count());
      });
}

}  // namespace keelson::python
