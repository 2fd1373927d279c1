#include "apps/climate/maps/map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "apps/climate/heuristics/percentile.hpp"
#include "apps/common/report/png.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::climate {
namespace {

using app::Colour;
using app::plot::escape;

constexpr int kWidest = 576;         // pixels of an image
constexpr double kCutPercent = 0.5;  // percent of the values at each end, which get the first and the last colour

/// 256 colours, interpolated between a few.
std::vector<Colour> colours_between(const std::vector<Colour>& few) {
  std::vector<Colour> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double place = static_cast<double>(i) / 255 * static_cast<double>(few.size() - 1);
    const auto k = std::min(static_cast<std::size_t>(place), few.size() - 2);
    for (std::size_t c = 0; c < 3; ++c)
      all[i][c] =
          static_cast<std::uint8_t>(std::lround(std::lerp(few[k][c], few[k + 1][c], place - static_cast<double>(k))));
  }
  return all;
}

struct MappedField {
  std::string title;
  std::function<double(const SnapshotFields&, int, int)> value;
  std::vector<Colour> colours;
};

const std::vector<MappedField>& mapped_fields() {
  static const std::vector<MappedField> all{
      {"Column water vapour, kg/m²", [](const SnapshotFields& f, int r, int c) { return f.at(r, c, TMQ); },
       colours_between({{120, 84, 44}, {214, 190, 140}, {244, 241, 232}, {120, 190, 190}, {14, 92, 110}})},
      {"Wind at 850 hPa, m/s",
       [](const SnapshotFields& f, int r, int c) { return std::hypot(f.at(r, c, U850), f.at(r, c, V850)); },
       colours_between({{246, 247, 251}, {178, 190, 222}, {126, 128, 186}, {96, 62, 140}, {54, 12, 70}})},
      {"Pressure at sea level, hPa", [](const SnapshotFields& f, int r, int c) { return f.at(r, c, PSL) / 100; },
       colours_between({{40, 70, 150}, {140, 175, 215}, {245, 245, 245}, {225, 165, 125}, {150, 50, 40}})}};
  return all;
}

/// The pixels of a field, from north to south.
struct Image {
  int width = 0, height = 0;
  std::vector<float> values;
};

Image image_of(const SnapshotFields& f, const MappedField& field) {
  const int step = (f.grid.columns + kWidest - 1) / kWidest;
  Image image{(f.grid.columns + step - 1) / step, (f.grid.rows + step - 1) / step, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      double sum = 0;
      int n = 0;
      for (int j = y * step; j < std::min((y + 1) * step, f.grid.rows); ++j)
        for (int i = x * step; i < std::min((x + 1) * step, f.grid.columns); ++i, ++n)
          sum += field.value(f, f.grid.rows - 1 - j, i);
      image.values.push_back(static_cast<float>(sum / n));
    }
  }
  return image;
}

std::string draw_field(const SnapshotFields& f, const MappedField& field, const std::string& lines) {
  const Image image = image_of(f, field);
  const double least = percentile(image.values, kCutPercent), most = percentile(image.values, 100 - kCutPercent);
  std::vector<std::uint8_t> pixels;
  for (const float v : image.values)
    pixels.push_back(
        static_cast<std::uint8_t>(std::lround(255 * clip((v - least) / std::max(most - least, 1e-30), 0, 1))));
  std::string stops;
  for (int i = 0; i <= 8; ++i) {
    const auto& c = field.colours[static_cast<std::size_t>(i * 255 / 8)];
    stops += fmt::format("{}rgb({},{},{})", i == 0 ? "" : ",", c[0], c[1], c[2]);
  }
  return fmt::format(
      "<div class='card'><b>{}</b><svg viewBox='0 0 {} {}' role='img' aria-label='{}'><image width='{}' height='{}' "
      "preserveAspectRatio='none' href='data:image/png;base64,{}'/>{}</svg><div class='scale'><span>{:.4g}</span><i "
      "style='background:linear-gradient(to right,{})'></i><span>{:.4g}</span></div></div>",
      escape(field.title), f.grid.columns, f.grid.rows, escape(field.title), f.grid.columns, f.grid.rows,
      app::base64(app::png(image.width, image.height, pixels, field.colours)), lines, least, stops, most);
}

/// Appends the straight lines of one direction; `across` true: lines between rows.
void append_pieces(std::string& path, std::span<const std::int32_t> labels, int rows, int columns, int of_class,
                   bool across) {
  const auto inside = [&](int row, int column) {
    return row >= 0 && row < rows && column >= 0 && column < columns &&
           labels[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                  static_cast<std::size_t>(column)] == of_class;
  };
  const int lines = across ? rows : columns, length = across ? columns : rows;
  for (int line = 0; line <= lines; ++line) {
    int begin = -1;
    for (int i = 0; i <= length; ++i) {
      const bool edge =
          i < length && (across ? inside(line - 1, i) != inside(line, i) : inside(i, line - 1) != inside(i, line));
      if (edge && begin < 0) begin = i;
      if (edge || begin < 0) continue;
      path += across ? fmt::format("M{} {}h{}", begin, rows - line, i - begin)
                     : fmt::format("M{} {}v{}", line, rows - begin, begin - i);
      begin = -1;
    }
  }
}

}  // namespace

const char* const map_style = R"css(
.card svg path{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.3}
.card svg path.cyclone{stroke-width:2.6}
.card svg path.prediction{stroke-dasharray:5 2}
path.truth{stroke:#000}path.heuristics{stroke:#e08700}path.prediction{stroke:#d0006f}
i.truth{background:#000}i.heuristics{background:#e08700}i.prediction{background:#d0006f}
.scale{display:flex;align-items:center;gap:8px;font-size:12px;color:var(--muted);margin-top:6px}
.scale i{flex:1;height:9px;border-radius:4px}
)css";

std::string outline_path(std::span<const std::int32_t> labels, int rows, int columns, int of_class) {
  std::string path;
  append_pieces(path, labels, rows, columns, of_class, true);
  append_pieces(path, labels, rows, columns, of_class, false);
  return path;
}

std::string draw_snapshot(const SnapshotFields& f, const std::vector<Outline>& outlines) {
  std::string lines;
  for (const auto& o : outlines) {
    for (const int k : {kRiver, kCyclone}) {
      const auto path = outline_path(o.labels, f.grid.rows, f.grid.columns, k);
      if (!path.empty())
        lines += fmt::format("<path class='{} {}' d='{}'/>", o.style, k == kRiver ? "river" : "cyclone", path);
    }
  }
  std::string out = "<div class='grid2'>";
  for (const auto& field : mapped_fields()) out += draw_field(f, field, lines);
  return out + "</div>";
}

std::string outline_key(const std::vector<Outline>& outlines) {
  std::string out = "<div class='keys'>";
  for (const auto& o : outlines) out += fmt::format("<span><i class='{}'></i>{}</span>", o.style, escape(o.name));
  return out + "<span><em>thin: atmospheric rivers, thick: tropical cyclones</em></span></div>";
}

}  // namespace keelson::climate
