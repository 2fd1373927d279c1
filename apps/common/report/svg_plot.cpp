#include "apps/common/report/svg_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace keelson::app::plot {
namespace {

constexpr int left = 64, right = 14, bottom = 44;

/// Where an entry of the legend begins: pixels, and number of the line. Entries wrap at the edge of the plot.
struct LegendPosition {
  double x = 0;
  int line = 0;
};

std::vector<LegendPosition> legend_positions(const Plot& p) {
  std::vector<LegendPosition> positions;
  double x = left;
  int line = 0;
  for (const auto& s : p.series) {
    const double width = s.name.empty() ? 0 : 37 + 7.3 * static_cast<double>(s.name.size());
    if (x > left && x + width - 16 > p.width) {
      x = left;
      ++line;
    }
    positions.push_back({x, line});
    x += width;
  }
  return positions;
}

bool has_legend(const Plot& p) {
  return std::any_of(p.series.begin(), p.series.end(), [](const auto& s) { return !s.name.empty(); });
}

/// Height of the title and of the legend's lines.
int top_of(const Plot& p) { return has_legend(p) ? 54 + 18 * legend_positions(p).back().line : 34; }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

/// Maps values to pixels along one axis.
struct Scale {
  double low, high, from, to;
  bool log;
  double operator()(double v) const {
    const auto t =
        log ? (std::log10(v) - std::log10(low)) / (std::log10(high) - std::log10(low)) : (v - low) / (high - low);
    return from + t * (to - from);
  }
};

bool drawable(double x, double y) { return std::isfinite(x) && std::isfinite(y); }

Range range_of(const Plot& p, bool of_x) {
  Range r;
  for (const auto& s : p.series)
    for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i)
      if (drawable(s.x[i], s.y[i])) r.add(of_x ? s.x[i] : s.y[i]);
  return r;
}

Scale make_scale(const Axis& axis, Range r, double from, double to, double padding) {
  const bool log = axis.log && r.low > 0;
  if (r.high - r.low < 1e-12 * std::max(1e-6, std::abs(r.high))) {  // all values are equal: widen the range
    const double d = r.high == 0 ? 1 : std::abs(r.high) * 0.1;
    r = {r.low - d, r.high + d};
  } else if (log) {
    const double d = std::pow(r.high / r.low, padding);
    r = {r.low / d, r.high * d};
  } else {
    const double d = (r.high - r.low) * padding;
    r = {r.low - d, r.high + d};
  }
  if (axis.min) r.low = *axis.min;
  if (axis.max) r.high = *axis.max;
  return {r.low, r.high, from, to, log};
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> out;
  const double decades = std::log10(high / low);
  if (decades < 1) return ticks(low, high, 5);
  for (int e = static_cast<int>(std::floor(std::log10(low))); e <= std::ceil(std::log10(high)); ++e)
    for (double m : {1.0, 2.0, 5.0}) {
      const double v = m * std::pow(10.0, e);
      if (v >= low && v <= high && (m == 1 || decades < 2.5)) out.push_back(v);
    }
  return out.size() >= 2 ? out : ticks(low, high, 5);
}

std::string number(double v) {
  if (v == 0) return "0";
  const double a = std::abs(v);
  if (a >= 1e4 && a < 1e7) return fmt::format("{:.4g}k", v / 1e3);
  if (a >= 1e7 || a < 1e-3) return fmt::format("{:.3g}", v);
  return fmt::format("{:.4g}", v);
}

void draw_axes(std::string& out, const Plot& p, const Scale& sx, const Scale& sy) {
  const int top = top_of(p);
  for (double t : sx.log ? log_ticks(sx.low, sx.high) : ticks(sx.low, sx.high, p.width / 80)) {
    out +=
        fmt::format("<line class='grid' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>", sx(t), top, p.height - bottom);
    out += fmt::format("<text class='tick' x='{:.1f}' y='{}' text-anchor='middle'>{}</text>", sx(t),
                       p.height - bottom + 16, number(t));
  }
  for (double t : sy.log ? log_ticks(sy.low, sy.high) : ticks(sy.low, sy.high, 5)) {
    out +=
        fmt::format("<line class='grid' x1='{1}' x2='{2}' y1='{0:.1f}' y2='{0:.1f}'/>", sy(t), left, p.width - right);
    out +=
        fmt::format("<text class='tick' x='{}' y='{:.1f}' text-anchor='end'>{}</text>", left - 7, sy(t) + 4, number(t));
  }
  out += fmt::format("<text class='axis' x='{}' y='{}' text-anchor='middle'>{}</text>", (left + p.width - right) / 2,
                     p.height - 8, escape(p.x.label));
  out += fmt::format("<text class='axis' transform='translate(13 {}) rotate(-90)' text-anchor='middle'>{}</text>",
                     (top + p.height - bottom) / 2, escape(p.y.label));
}

void draw_line(std::string& out, const Series& s, const Scale& sx, const Scale& sy) {
  std::string path;
  bool pen = false;
  for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
    if (!drawable(s.x[i], s.y[i])) {
      pen = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", sx(s.x[i]), sy(s.y[i]));
    pen = true;
  }
  out += fmt::format("<path class='line{}{}' style='stroke:var(--s{})' d='{}'/>", s.faint ? " faint" : "",
                     s.dashed ? " dashed" : "", s.colour, path);
}

/// Element i, or `otherwise` if the list is empty.
template <class T>
T one_of(const std::vector<T>& all, std::size_t i, const T& otherwise) {
  return i < all.size() ? all[i] : otherwise;
}

void draw_points(std::string& out, const Series& s, const Scale& sx, const Scale& sy, double radius, bool titles) {
  out += fmt::format("<g class='points{}' style='fill:var(--s{})'>", s.faint ? " faint" : "", s.colour);
  for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
    if (!drawable(s.x[i], s.y[i])) continue;
    const double r = one_of(s.radii, i, radius);
    const auto circle = fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='{:.3g}'", sx(s.x[i]), sy(s.y[i]), r);
    const auto title = one_of(s.titles, i, fmt::format("{}, {}", number(s.x[i]), number(s.y[i])));
    out += titles ? fmt::format("{}><title>{}</title></circle>", circle, escape(title)) : circle + "/>";
  }
  out += "</g>";
}

/// Writes the labels of points: above the point, else below it. A label that would overlap an earlier one, or leave the
/// plot, is left out.
class LabelWriter {
 public:
  void write(std::string& out, const Series& s, const Scale& sx, const Scale& sy) {
    for (std::size_t i = 0; i < std::min(s.labels.size(), std::min(s.x.size(), s.y.size())); ++i) {
      if (s.labels[i].empty() || !drawable(s.x[i], s.y[i])) continue;
      const double r = one_of(s.radii, i, 3.0), half = 3.1 * static_cast<double>(s.labels[i].size());
      const double x = std::max(half, std::min(sx(s.x[i]), sx.to + right - half));  // no label leaves the plot
      for (const double y : {sy(s.y[i]) - r - 4, sy(s.y[i]) + r + 12}) {
        const bool taken = std::any_of(labels_.begin(), labels_.end(), [&](const LabelBox& p) {
          return std::abs(p.y - y) < 13 && std::abs(p.x - x) < p.half + half;
        });
        if (taken) continue;
        labels_.push_back({x, y, half});
        out += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>", x, y,
                           escape(s.labels[i]));
        break;
      }
    }
  }

 private:
  struct LabelBox {
    double x, y, half;
  };
  std::vector<LabelBox> labels_;
};

void draw_legend(std::string& out, const Plot& p) {
  const auto positions = legend_positions(p);
  for (std::size_t i = 0; i < p.series.size(); ++i) {
    const auto& s = p.series[i];
    if (s.name.empty()) continue;
    const double x = positions[i].x;
    const int y = 36 + 18 * positions[i].line;
    if (s.mark == Series::Mark::points)
      out += fmt::format("<circle cx='{:.1f}' cy='{}' r='3.5' style='fill:var(--s{})'/>", x + 8, y, s.colour);
    else
      out += fmt::format("<line class='line{}' x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}' style='stroke:var(--s{})'/>",
                         s.dashed ? " dashed" : "", x, x + 16, y, y, s.colour);
    out += fmt::format("<text class='key' x='{:.1f}' y='{}'>{}</text>", x + 21, y + 4, escape(s.name));
  }
}

}  // namespace

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::vector<double> ticks(double low, double high, int count) {
  const double raw = (high - low) / std::max(1, count);
  if (!(raw > 0) || !std::isfinite(raw)) return {};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double ratio = raw / power;
  const double step = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
  std::vector<double> out;
  for (auto i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) out.push_back(i * step);
  return out;
}

Series thinned(const Series& s, std::size_t most) {
  const auto n = std::min(s.x.size(), s.y.size());
  if (n <= most || most == 0) return s;
  Series out = s;
  out.x.clear();
  out.y.clear();
  for (std::size_t b = 0; b < most; ++b) {
    const auto from = b * n / most, to = (b + 1) * n / most;
    double sum_x = 0, sum_y = 0;
    for (auto i = from; i < to; ++i) {
      sum_x += s.x[i];
      sum_y += s.y[i];
    }
    out.x.push_back(sum_x / static_cast<double>(to - from));
    out.y.push_back(sum_y / static_cast<double>(to - from));
  }
  return out;
}

std::string svg(const Plot& p) {
  std::string out =
      fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>", p.width, p.height, escape(p.title));
  out += fmt::format("<text class='title' x='{}' y='20'>{}</text>", left, escape(p.title));
  auto rx = range_of(p, true), ry = range_of(p, false);
  if (rx.empty()) {
    return out + fmt::format("<text class='axis' x='{}' y='{}' text-anchor='middle'>nothing measured yet</text></svg>",
                             p.width / 2, p.height / 2);
  }
  if (p.diagonal) {
    rx.add(ry.low);
    rx.add(ry.high);
    ry = rx;
  }
  const auto sx = make_scale(p.x, rx, left, p.width - right, p.diagonal ? 0.05 : 0);
  const auto sy = make_scale(p.y, ry, p.height - bottom, top_of(p), 0.06);
  draw_axes(out, p, sx, sy);
  if (p.diagonal)
    out += fmt::format("<line class='diagonal' x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}'/>", sx(sx.low),
                       sy(std::max(sy.low, sx.low)), sx(sx.high), sy(std::min(sy.high, sx.high)));
  for (const auto& s : p.series) {
    const bool many = s.x.size() > 200;
    if (s.mark != Series::Mark::points) draw_line(out, s, sx, sy);
    if (s.mark == Series::Mark::points) draw_points(out, s, sx, sy, many ? 2 : 3, !many);
    if (s.mark == Series::Mark::both && s.x.size() <= 60) draw_points(out, s, sx, sy, 3, true);
  }
  LabelWriter labels;
  for (const auto& s : p.series) labels.write(out, s, sx, sy);
  draw_legend(out, p);
  return out + "</svg>";
}

std::string stacked_bar(const std::vector<std::pair<std::string, double>>& parts, const std::string& unit) {
  double total = 0;
  for (const auto& part : parts) total += part.second;
  if (!(total > 0)) return "<p class='note'>nothing measured yet</p>";
  std::string bar = "<svg viewBox='0 0 1000 26' preserveAspectRatio='none' class='bar'>", keys = "<div class='keys'>";
  double x = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double w = 1000 * parts[i].second / total;
    bar += fmt::format("<rect x='{:.2f}' y='0' width='{:.2f}' height='26' style='fill:var(--s{})'/>", x,
                       std::max(0.0, w - 2), i % 6);
    keys += fmt::format("<span><i style='background:var(--s{})'></i>{} <b>{:.1f} %</b> <em>{:.3g} {}</em></span>",
                        i % 6, escape(parts[i].first), 100 * parts[i].second / total, parts[i].second, escape(unit));
    x += w;
  }
  return bar + "</svg>" + keys + "</div>";
}

}  // namespace keelson::app::plot
