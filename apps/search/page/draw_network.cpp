#include "apps/search/page/draw_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/svg_plot.hpp"
#include "search/genome/design.hpp"

namespace keelson::search {
namespace {

constexpr double gap = 10, middle = 70, text_height = 12;

bool is_recurrent_layer(const Graph::Node& node) {
  return !node.is_input() && (node.layer->kind() == "lstm" || node.layer->kind() == "gru");
}

/// Whether a node is drawn: those that change the shape, and no activation or normalization.
bool is_drawn(const Graph::Node& node, const Graph& graph) {
  if (node.is_input()) return node.name == "x";
  const Shape& shape = node.shape.shape;
  if (shape.rank() < 2) return false;
  if (is_recurrent_layer(node)) return true;
  if (node.name.ends_with("_input") || node.name.ends_with("_rows")) return false;  // parts of recurrent layers
  return node.name.find('_') == node.name.npos ||
         graph.nodes()[static_cast<std::size_t>(node.srcs[0])].shape.shape != shape;
}

int colour_of(const std::string& name) {
  return name == "x" ? 5 : name.starts_with("stage") ? 0 : name == "output" ? 2 : name.starts_with("dense") ? 1 : 3;
}

}  // namespace

std::string draw_network(const Genome& genome, const Space& space) {
  const Graph graph = network_of(genome, space);
  std::string boxes;
  double x = gap;
  for (const Graph::Node& node : graph.nodes()) {
    if (!is_drawn(node, graph)) continue;
    const Shape& shape = node.shape.shape;
    const bool steps = is_recurrent_layer(node);  // (steps, hidden)
    const bool flat = shape.rank() == 2 && !steps;
    const double channels = static_cast<double>(shape[1]);
    const double extent = flat    ? channels
                          : steps ? static_cast<double>(shape[0])
                                  : static_cast<double>(shape[shape.rank() - 1]);
    const double width = flat ? 12 : 8 + 6 * std::log2(1 + channels),
                 height = std::min(110.0, 14 + 12 * std::log2(1 + extent));
    std::string label;
    const int first = steps ? 0 : 1;
    for (int d = first; d < shape.rank(); ++d) label += fmt::format("{}{}", d == first ? "" : "x", shape[d]);
    boxes += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"var(--s{})\" "
        "fill-opacity=\".55\">"
        "<title>{}: {}</title></rect>",
        x, middle - height / 2, width, height, colour_of(node.name), app::plot::escape(node.name), label);
    boxes += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" font-size=\"9\" fill=\"var(--muted)\" transform=\"rotate(45 {0:.1f} "
        "{1:.1f})\">{2}</text>",
        x, 2 * middle + text_height - 8, label);
    x += width + gap + (flat ? 14 : 4);
  }
  return fmt::format("<svg width=\"{:.0f}\" height=\"210\" viewBox=\"0 0 {:.0f} 210\" role=\"img\">{}</svg>\n", x + 40,
                     x + 40, boxes);
}

}  // namespace keelson::search
