#include "engine/graph/topology.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/fnv1a.hpp"

namespace keelson {

namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int64_t> list(const Shape& s) { return {s.begin(), s.end()}; }
Shape shape_of(const Json& j) {
  const auto dims = j.get<std::vector<std::int64_t>>();
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (dims.size() > max_rank || std::ranges::any_of(dims, [](std::int64_t d) { return d < 0 || d > most; }))
    refuse("the text is no topology of a network: found the shape {}, expected at most {} extents from 0 to {}",
           j.dump(), max_rank, most);
  return Shape(dims);
}

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const Topology::Node& n) {
  Json j{{"name", n.name}, {"kind", n.kind}, {"srcs", n.srcs}, {"shape", list(n.shape)}, {"dtype", n.dtype}};
  for (const auto& [name, shape] : n.parameters) j["parameters"][name] = list(shape);
  for (const auto& [name, other] : n.shared) j["shared"][name] = other;
  return j;
}

Topology::Node node_from(const Json& j) {
  Topology::Node n{j.at("name"), j.at("kind"), j.at("srcs"), shape_of(j.at("shape")), j.at("dtype")};
  if (j.contains("parameters"))
    for (const auto& [name, shape] : j["parameters"].items()) n.parameters[name] = shape_of(shape);
  n.shared = j.value("shared", n.shared);
  return n;
}

}  // namespace

Topology::Topology(const Graph& graph) {
  const auto& all = graph.nodes();
  for (const Graph::Node& n : all) {
    Node& t = nodes.emplace_back();
    t.name = n.name;
    t.kind = n.is_state ? "state" : n.layer->kind();
    t.shape = n.shape.shape;
    t.dtype = std::string(to_string(n.shape.dtype));
    t.shared = n.shared;
    for (const int s : n.srcs) t.srcs.push_back(all[s].name);
    for (const ParameterSpec& p : n.layer->parameters(graph.source_shapes(n))) t.parameters[p.name] = p.shape;
  }
  for (const auto& [name, node] : graph.outputs()) outputs[name] = all[node].name;
  if (graph.loss() >= 0) loss = all[graph.loss()].name;
}

Topology Topology::parse(const std::string& text) {
  Topology t;
  try {
    const Json j = Json::parse(text);
    for (const Json& n : j.at("nodes")) t.nodes.push_back(node_from(n));
    t.outputs = j.at("outputs").get<std::map<std::string, std::string>>();
    t.loss = j.at("loss");
  } catch (const Json::exception&) {
    refuse("the text is no topology of a network: expected a text of Topology::to_text()");
  }
  return t;
}

std::string Topology::to_text() const {
  std::string text = "{\"nodes\":[";
  for (const Node& n : nodes) text += (&n == nodes.data() ? "\n" : ",\n") + dump(to_json(n));
  return text + fmt::format("\n],\n\"outputs\":{},\n\"loss\":{}}}\n", dump(Json(outputs)), dump(Json(loss)));
}

std::map<std::string, std::int64_t> Topology::widths() const {
  std::map<std::string, std::int64_t> all;
  for (const Node& n : nodes)
    if (!n.parameters.empty() && n.shape.rank() > 1) all[n.name] = n.shape[1];
  return all;
}

std::map<std::string, std::string> Topology::lines() const {
  std::map<std::string, std::string> all{{"outputs", dump(Json(outputs))}, {"loss", loss}};
  Digest order;
  for (const Node& n : nodes) {
    all["node " + n.name] = dump(to_json(n));
    order.add(n.name);
  }
  all["order of the nodes"] = fmt::format("{:016x}", order.value());
  return all;
}

std::string difference(const Topology& found, const Topology& expected) {
  auto a = found.lines();
  for (const auto& [name, line] : expected.lines()) {
    const auto mine = a.find(name);
    if (mine == a.end()) return fmt::format("{} is missing, expected {}", name, line);
    if (mine->second != line) return fmt::format("{} is {}, expected {}", name, mine->second, line);
    a.erase(mine);
  }
  return a.empty() ? "" : fmt::format("{} was not expected", a.begin()->first);
}

}  // namespace keelson
