#include "apps/search/source_text.hpp"

#include <fmt/format.h>

#include "search/genome/steps.hpp"

namespace keelson::search {
namespace {

using Kind = Step::Kind;

/// "{3, 5}" or "(3, 5)".
std::string list_of(const Shape& shape, char open, char close) {
  std::string text(1, open);
  for (int d = 0; d < shape.rank(); ++d) text += fmt::format("{}{}", d == 0 ? "" : ", ", shape[d]);
  if (open == '(' && shape.rank() == 1) text += ",";
  return text + close;
}

/// The variable that keeps the result of a node that another one adds later.
std::string kept_name(const std::string& node) { return node == "x" ? "x" : "of_" + node; }

bool is_added_later(const std::vector<Step>& steps, const std::string& node) {
  for (const Step& s : steps)
    if (s.kind == Kind::add && s.with == node) return true;
  return false;
}

std::string cpp_call(const Step& s) {
  switch (s.kind) {
    case Kind::reshape:
      return fmt::format("keelson::reshape(h, {}, \"{}\")", list_of(s.shape, '{', '}'), s.name);
    case Kind::conv:
      return fmt::format(
          "keelson::conv(h, {{.filters = {}, .stride = {}, .padding = keelson::Padding::{}, .bias = {}, .kernel = "
          "{}}}, \"{}\")",
          s.features, s.stride, s.same ? "same" : "valid", s.bias, list_of(s.shape, '{', '}'), s.name);
    case Kind::max_pool:
      return fmt::format("keelson::max_pool(h, {{.kernel = {}}}, \"{}\")", list_of(s.shape, '{', '}'), s.name);
    case Kind::batch_norm:
      return fmt::format("keelson::batch_norm(h, {{}}, \"{}\")", s.name);
    case Kind::activation:
      if (s.activation == "leaky_relu") return fmt::format("keelson::leaky_relu(h, {}f, \"{}\")", leaky_slope, s.name);
      if (s.activation == "elu") return fmt::format("keelson::elu(h, 1, \"{}\")", s.name);
      return fmt::format("keelson::{}(h, \"{}\")", s.activation, s.name);
    case Kind::add:
      return fmt::format("keelson::add({{{}, h}}, \"{}\")", kept_name(s.with), s.name);
    case Kind::dropout:
      return fmt::format("keelson::dropout(h, {}f, \"{}\")", s.rate, s.name);
    case Kind::flatten:
      return fmt::format("keelson::flatten(h, keelson::ElementOrder::logical, 0, \"{}\")", s.name);
    case Kind::rows:
      return fmt::format("keelson::flatten(h, keelson::ElementOrder::{}, {}, \"{}\")",
                         s.channels_last ? "channels_last" : "logical", s.features, s.name);
    case Kind::lstm:
    case Kind::gru:
      return fmt::format("keelson::{}(h, {{.hidden = {}, .carries_state = false}}, \"{}\")",
                         s.kind == Kind::lstm ? "lstm" : "gru", s.features, s.name);
    case Kind::last_step:
      return fmt::format("keelson::last_step(h, \"{}\")", s.name);
    case Kind::dense:
      break;
  }
  return fmt::format("keelson::dense(h, {{.features = {}, .bias = {}}}, \"{}\")", s.features, s.bias, s.name);
}

std::string python_call(const Step& s) {
  const auto yes = [](bool b) { return b ? "True" : "False"; };
  switch (s.kind) {
    case Kind::reshape:
      return fmt::format("layers.reshape(h, {}, name=\"{}\")", list_of(s.shape, '(', ')'), s.name);
    case Kind::conv:
      return fmt::format("layers.conv(h, {}, {}, stride={}, padding=\"{}\", bias={}, name=\"{}\")", s.features,
                         list_of(s.shape, '(', ')'), s.stride, s.same ? "same" : "valid", yes(s.bias), s.name);
    case Kind::max_pool:
      return fmt::format("layers.max_pool(h, {}, name=\"{}\")", list_of(s.shape, '(', ')'), s.name);
    case Kind::batch_norm:
      return fmt::format("layers.batch_norm(h, name=\"{}\")", s.name);
    case Kind::activation:
      return s.activation == "leaky_relu" ? fmt::format("layers.leaky_relu(h, {}, name=\"{}\")", leaky_slope, s.name)
                                          : fmt::format("layers.{}(h, name=\"{}\")", s.activation, s.name);
    case Kind::add:
      return fmt::format("layers.add([{}, h], name=\"{}\")", kept_name(s.with), s.name);
    case Kind::dropout:
      return fmt::format("layers.dropout(h, {}, name=\"{}\")", s.rate, s.name);
    case Kind::flatten:
      return fmt::format("layers.flatten(h, name=\"{}\")", s.name);
    case Kind::rows:
      return fmt::format("layers.flatten(h, order=\"{}\", features={}, name=\"{}\")",
                         s.channels_last ? "channels_last" : "logical", s.features, s.name);
    case Kind::lstm:
    case Kind::gru:
      return fmt::format("layers.{}(h, {}, carries_state=False, name=\"{}\")", s.kind == Kind::lstm ? "lstm" : "gru",
                         s.features, s.name);
    case Kind::last_step:
      return fmt::format("layers.last_step(h, name=\"{}\")", s.name);
    case Kind::dense:
      break;
  }
  return fmt::format("layers.dense(h, {}, bias={}, name=\"{}\")", s.features, yes(s.bias), s.name);
}

}  // namespace

std::string cpp_source(const Genome& genome, const Space& space) {
  std::string text = fmt::format(
      "#pragma once\n\n#include \"engine/layers/layers.hpp\"\n\n"
      "/// A network that keelson-search has found. Inputs: \"x\" and \"y\"; output: \"prediction\".\n"
      "inline keelson::Graph make_network() {{\n  keelson::Graph graph;\n"
      "  const keelson::Var x = graph.input(\"x\", {});\n  keelson::Var h = x;\n",
      list_of(space.sample, '{', '}'));
  const auto steps = steps_of(genome, space);
  for (const Step& s : steps) {
    text += fmt::format("  h = {};\n", cpp_call(s));
    if (is_added_later(steps, s.name)) text += fmt::format("  const keelson::Var {} = h;\n", kept_name(s.name));
  }
  text += "  graph.set_output(\"prediction\", h);\n";
  text += space.classes ? "  keelson::cross_entropy(h, graph.input(\"y\", {}, keelson::DType::s32));\n"
                        : fmt::format("  keelson::mse(h, graph.input(\"y\", {{{}}}));\n", space.outputs);
  return text + "  return graph;\n}\n";
}

std::string python_source(const Genome& genome, const Space& space) {
  std::string text = fmt::format(
      "import keelson\nfrom keelson import layers\n\n\ndef make_network():\n"
      "    \"\"\"A network that keelson-search has found. Inputs: x and y; output: prediction.\"\"\"\n"
      "    graph = keelson.Graph(\"search\")\n    x = graph.input(\"x\", {})\n    h = x\n",
      list_of(space.sample, '(', ')'));
  const auto steps = steps_of(genome, space);
  for (const Step& s : steps) {
    text += fmt::format("    h = {}\n", python_call(s));
    if (is_added_later(steps, s.name)) text += fmt::format("    {} = h\n", kept_name(s.name));
  }
  text += "    graph.output(\"prediction\", h)\n";
  text += space.classes ? "    layers.cross_entropy(h, graph.input(\"y\", (), \"int32\"))\n"
                        : fmt::format("    layers.mse(h, graph.input(\"y\", ({},)))\n", space.outputs);
  return text + "    return graph\n";
}

}  // namespace keelson::search
