#include "apps/climate/maps/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/climate/maps/map.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "engine/data/good_samples.hpp"

namespace keelson::climate {
namespace {

using app::plot::escape;

std::string number(double v) { return std::isfinite(v) ? fmt::format("{:.4f}", v) : ""; }

}  // namespace

std::string map_section(const SnapshotDataset& data, std::int64_t count,
                        const std::vector<std::vector<std::int32_t>>& predicted,
                        const std::vector<std::int64_t>& left_out) {
  const GoodSamples samples(data, left_out);
  if (data.layout().channels.size() != kChannels || samples.size() == 0) return "";
  const Grid grid{static_cast<int>(data.layout().rows), static_cast<int>(data.layout().columns)};
  std::vector<float> x(static_cast<std::size_t>(grid.points()) * kChannels);
  std::string out = fmt::format("<style>{}</style>", map_style), key;
  for (std::int64_t k = 0; k < std::min(count, samples.size()); ++k) {
    const std::int64_t i = samples.original(k);
    data.read_all_channels(i, x.data());
    const SnapshotFields fields{grid, x};
    std::vector<Outline> outlines{{"heuristics", "heuristics", heuristic_labels(fields, {})}};
    if (data.has_labels(i)) {
      Outline truth{"truth", "truth", std::vector<std::int32_t>(static_cast<std::size_t>(grid.points()))};
      data.read_labels(i, truth.labels.data());
      outlines.push_back(std::move(truth));
    }
    if (static_cast<std::size_t>(k) < predicted.size())
      outlines.push_back({"prediction of the network", "prediction", predicted[static_cast<std::size_t>(k)]});
    if (key.empty()) out += key = outline_key(outlines);
    out += fmt::format("<p class='sub' style='margin:16px 0 6px'>{}</p>{}", escape(data.name_of(i)),
                       draw_snapshot(fields, outlines));
  }
  return out;
}

std::vector<IoUColumn> columns_of(const std::string& name, const ConfusionMatrix& pixels,
                                  const std::vector<double>& images, double images_mean) {
  IoUColumn pooled{name + ", all pixels", {}, mean_iou(pixels)};
  for (std::int64_t k = 0; k < pixels.classes(); ++k) pooled.classes.push_back(pixels.iou(k, NAN));
  return {pooled, {name + ", per image", images, images_mean}};
}

std::string iou_table(const std::vector<IoUColumn>& columns) {
  std::string out = "<table class='narrow'><tr><th>intersection over union</th>";
  for (const auto& c : columns) out += fmt::format("<th class='n'>{}</th>", escape(c.name));
  for (std::size_t k = 0; k < kClasses; ++k) {
    out += fmt::format("</tr><tr><td>{}</td>", kClassNames[k]);
    for (const auto& c : columns) out += fmt::format("<td class='n'>{}</td>", number(c.classes.at(k)));
  }
  out += "</tr><tr><td>mean</td>";
  for (const auto& c : columns) out += fmt::format("<td class='n'><b>{}</b></td>", number(c.mean));
  return out + "</tr></table>";
}

std::string confusion_table(const ConfusionMatrix& m) {
  std::string out = "<table class='narrow'><tr><th>true class, by predicted class</th>";
  for (const char* name : kClassNames) out += fmt::format("<th class='n'>{}</th>", name);
  for (std::int64_t t = 0; t < m.classes(); ++t) {
    std::int64_t all = 0;
    for (std::int64_t p = 0; p < m.classes(); ++p) all += m(t, p);
    out += fmt::format("</tr><tr><td>{}</td>", kClassNames[static_cast<std::size_t>(t)]);
    for (std::int64_t p = 0; p < m.classes(); ++p)
      out += fmt::format(
          "<td class='n'>{}{}</td>", m(t, p),
          all == 0 ? "" : fmt::format(" ({:.1f} %)", 100.0 * static_cast<double>(m(t, p)) / static_cast<double>(all)));
  }
  return out + "</tr></table>";
}

}  // namespace keelson::climate
