#include "apps/minerva/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/report/png.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/minerva/detector/detector.hpp"

namespace keelson::minerva {
namespace {

/// From white over orange to dark red.
std::vector<app::Colour> light_colours() {
  std::vector<app::Colour> all;
  for (int i = 0; i < 256; ++i) {
    const double t = i / 255.0;
    const auto part = [](double v) { return static_cast<std::uint8_t>(std::lround(255 * std::clamp(v, 0.0, 1.0))); };
    all.push_back(i == 0 ? app::Colour{255, 255, 255}
                         : app::Colour{part(1.3 - t), part(0.85 - 1.1 * t), part(0.45 - 1.2 * t)});
  }
  return all;
}

/// The place of a class among the columns of a view, for a line in its picture; no value: beyond the picture.
std::optional<double> column_of(const Detector& detector, const EventOptions& o, std::int64_t k, View view,
                                std::int64_t columns) {
  if (o.target == "segment" || k < 1 || k >= detector.codes()) return std::nullopt;
  const DetectorLayer& layer = detector.of_code(static_cast<int>(k));
  for (std::int64_t c = 0; c < columns; ++c) {
    const DetectorLayer& plane = detector.of_column(view, static_cast<int>(c));
    if (plane.code == layer.code) return static_cast<double>(c) + 0.5;
    if (plane.begin > layer.begin) return static_cast<double>(c);
  }
  return std::nullopt;
}

/// Height and width are those of the detector: planes of a view are 45 or 90 mm apart, strips 16.75 mm.
std::string picture(const Detector& detector, const EventOptions& o, const std::vector<float>& energies, View view,
                    std::int64_t truth, std::int64_t predicted) {
  constexpr double brightest = 30;  // MeV
  const std::int64_t columns = std::ssize(energies) / strips;
  std::vector<std::uint8_t> pixels;
  for (const float e : energies)
    pixels.push_back(e <= 0 ? std::uint8_t{0}
                            : static_cast<std::uint8_t>(
                                  std::clamp(30 + 225 * std::log1p(double{e}) / std::log1p(brightest), 30.0, 255.0)));
  const double width = static_cast<double>(columns) * (view == View::x ? 2 : 4) * plane_pitch,
               height = strips * strip_pitch;
  std::string lines;
  const auto mark = [&](std::int64_t k, const char* style) {
    if (const auto at = column_of(detector, o, k, view, columns))
      lines += fmt::format("<path d='M{:.0f} 0v{:.0f}' style='fill:none;stroke-width:9;{}'/>",
                           *at / static_cast<double>(columns) * width, height, style);
  };
  mark(truth, "stroke:#1f6fd0;opacity:.7");
  mark(predicted, "stroke:#12876f;stroke-dasharray:40 25");
  const char* name = view_names[static_cast<std::size_t>(view)];
  return fmt::format(
      "<div><svg viewBox='0 0 {:.0f} {:.0f}' role='img' aria-label='view {}'><image width='{:.0f}' height='{:.0f}' "
      "preserveAspectRatio='none' style='image-rendering:pixelated' href='data:image/png;base64,{}'/>{}</svg>view "
      "{}</div>",
      width, height, name, width, height,
      app::base64(app::png(static_cast<int>(columns), strips, pixels, light_colours())), lines, name);
}

std::string event_display(const EventDataset& events, const Detector& detector, std::int64_t index,
                          std::int64_t predicted) {
  const Energies event = events.energies(index);
  const EventOptions& o = events.options();
  std::string html = fmt::format("<div class='card'><b>event {}: {}, predicted {}</b><div class='grid4'>", index,
                                 class_name(o, event.truth), class_name(o, predicted));
  for (std::size_t v = 0; v < event.views.size(); ++v)
    html += picture(detector, o, event.views[v], static_cast<View>(v), event.truth, predicted);
  return html + "</div></div>";
}

std::string residual_plot(const VertexMetric& m) {
  app::plot::Plot plot{"Predicted less true z", {"mm"}, {"events", false, 0.0}, {}, 540, 300};
  app::plot::Series steps{"", {}, {}, app::plot::Series::Mark::line, 0};
  const auto counts = m.histogram();
  constexpr int middle = VertexMetric::bins / 2;
  for (std::size_t b = 0; b < counts.size(); ++b)
    for (const double side : {-0.5, 0.5}) {
      steps.x.push_back((static_cast<double>(static_cast<int>(b) - middle) + side) * VertexMetric::bin_width);
      steps.y.push_back(static_cast<double>(counts[b]));
    }
  plot.series.push_back(std::move(steps));
  return fmt::format(
      "<div class='card'>{}<p class='note'>Of {} events: mean {:.1f} mm, root mean square {:.1f} mm, {:.1f} % within a "
      "plane's pitch of {} mm. The predicted place is the mean z of the class. Without unknown vertices and the last "
      "class of planecodes. The outermost bins have all events beyond.</p></div>",
      app::plot::svg(plot), m.events(), m.mean(), m.rms(), 100 * m.within_plane(), plane_pitch);
}

}  // namespace

std::string class_name(const EventOptions& o, std::int64_t k) {
  static const Detector detector;
  if (o.target == "segment") return segment_names().at(static_cast<std::size_t>(k));
  if (k == 0) return "unknown";
  if (k == o.classes - 1) return fmt::format("plane {} or more", k);
  if (k < detector.codes())
    if (const DetectorLayer& l = detector.of_code(static_cast<int>(k)); l.kind == LayerKind::target)
      return fmt::format("target {}", l.number);
  return fmt::format("plane {}", k);
}

std::vector<std::string> target_names(const EventOptions& o) {
  std::vector<std::string> names;
  if (o.target != "segment") names.emplace_back("unknown");
  names.insert(names.end(), segment_names().begin(), segment_names().end());
  return names;
}

ConfusionMatrix confusion_by_target(const EventOptions& o, const ConfusionMatrix& classes) {
  if (o.target == "segment") return classes;
  const Detector detector;
  const auto row = [&](std::int64_t k) -> std::int64_t {
    return k == 0 ? 0 : 1 + detector.of_code(static_cast<int>(std::min<std::int64_t>(k, detector.codes() - 1))).segment;
  };
  ConfusionMatrix sums(static_cast<std::int64_t>(target_names(o).size()));
  for (std::int64_t t = 0; t < classes.classes(); ++t)
    for (std::int64_t k = 0; k < classes.classes(); ++k) sums.add(row(t), row(k), classes(t, k));
  return sums;
}

std::vector<app::ReportInput::Section> vertex_sections(const EventDataset& events, const ConfusionMatrix& classes,
                                                       const VertexMetric& vertices) {
  const EventOptions& o = events.options();
  const Detector detector;
  std::string displays;
  const auto predicted = vertices.predicted();
  for (std::size_t i = 0; i < predicted.size(); ++i)
    if (predicted[i] >= 0) displays += event_display(events, detector, static_cast<std::int64_t>(i), predicted[i]);
  return {{"Confusion by target",
           "<div class='card'>" + app::confusion_table(confusion_by_target(o, classes), target_names(o)) + "</div>"},
          {"Residual in z", residual_plot(vertices)},
          {"Events",
           displays + "<p class='note'>Energies, from 0 (white) to 30 MeV and more (dark). Upstream is left. Blue: the "
                      "true plane or target; green, dashed: the predicted one.</p>"}};
}

}  // namespace keelson::minerva
