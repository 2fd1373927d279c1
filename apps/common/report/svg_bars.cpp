#include "apps/common/report/svg_bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/svg_plot.hpp"

namespace keelson::app::plot {
namespace {

constexpr int bars_left = 14, bars_top = 32, row = 38, thickness = 13;
constexpr double letter = 6.6;  ///< pixels of a letter, rather too many

/// The text (UTF-8), cut if it needs more than `pixels`.
std::string fitting(const std::string& text, double pixels) {
  const auto starts_letter = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto most = static_cast<std::ptrdiff_t>(std::max(4.0, pixels / letter));
  if (std::count_if(text.begin(), text.end(), starts_letter) <= most) return text;
  std::string cut;
  std::ptrdiff_t letters = 0;
  for (const char c : text) {
    if (starts_letter(c) && ++letters >= most) break;
    cut += c;
  }
  return cut + "…";
}

std::string tick_text(double v) { return v >= 1e5 ? fmt::format("{:.3g}", v) : fmt::format("{:.6g}", v); }

/// Lines at 45 degrees within a box.
std::string hatching(double x0, double x1, double y0, double y1) {
  std::string path;
  const double height = y1 - y0;
  for (double x = x0 - height; x < x1; x += 6) {
    const double from = std::max(x, x0), to = std::min(x + height, x1);
    if (to > from) path += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", from, y1 - (from - x), to, y1 - (to - x));
  }
  return fmt::format("<path d='{}' style='fill:none;stroke:var(--muted);stroke-width:1.2'/>", path);
}

void draw_bar(std::string& out, const Bar& bar, double y, double x1, double width) {
  const double top = y + 18, room = width - bars_left - 8;
  const auto label = fitting(bar.label, room);
  out += fmt::format("<g><title>{}: {}</title><text class='key' x='{}' y='{:.1f}'>{}</text>", escape(bar.label),
                     escape(bar.text), bars_left, y + 13, escape(label));
  if (!std::isfinite(bar.value)) {
    out += fmt::format("<text class='tick' x='{}' y='{:.1f}' font-style='italic'>{}</text></g>", bars_left + 4,
                       top + 11, escape(fitting(bar.text, room)));
    return;
  }
  const double wide = std::max(x1 - bars_left, 1.0);
  if (bar.hatched) {
    out += fmt::format(
        "<rect x='{}' y='{:.1f}' width='{:.1f}' height='{}' style='fill:none;stroke:var(--muted);stroke-dasharray:4 "
        "2'/>",
        bars_left, top, wide, thickness);
    out += hatching(bars_left, bars_left + wide, top, top + thickness);
  } else {
    out += fmt::format("<rect x='{}' y='{:.1f}' width='{:.1f}' height='{}' rx='2' style='fill:var(--s{})'/>", bars_left,
                       top, wide, thickness, bar.colour % 6);
  }
  out += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}'>{}</text></g>", bars_left + wide + 6, top + 11,
                     escape(bar.text));
}

}  // namespace

std::string svg(const BarChart& chart) {
  double most = 0, longest = 0;
  for (const auto& b : chart.bars) {
    if (!std::isfinite(b.value)) continue;
    most = std::max(most, b.value);
    longest = std::max(longest, static_cast<double>(b.text.size()));
  }
  const double right = chart.width - 14 - letter * longest - 6,
               end = bars_top + row * static_cast<double>(chart.bars.size());
  const double height = end + (most > 0 ? 46 : 10);
  std::string out =
      fmt::format("<svg viewBox='0 0 {} {:.0f}' role='img' aria-label='{}'>", chart.width, height, escape(chart.title));
  out += fmt::format("<text class='title' x='{}' y='20'>{}</text>", bars_left,
                     escape(fitting(chart.title, chart.width * 0.85)));
  const auto place = [&](double v) { return bars_left + (right - bars_left) * v / most; };
  if (most > 0) {
    for (const double tick : ticks(0, most, 5)) {
      const double t = tick + 0.0;  // not -0
      out += fmt::format("<line class='grid' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2:.1f}'/>", place(t), bars_top,
                         end + 4);
      out += fmt::format("<text class='tick' x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>", place(t), end + 18,
                         "middle", tick_text(t));
    }
    out += fmt::format("<text class='axis' x='{}' y='{:.1f}' text-anchor='middle'>{}</text>", chart.width / 2, end + 38,
                       escape(chart.axis));
  }
  double y = bars_top;
  for (const auto& b : chart.bars) {
    draw_bar(out, b, y, std::isfinite(b.value) && most > 0 ? place(b.value) : bars_left, chart.width);
    y += row;
  }
  return out + "</svg>";
}

}  // namespace keelson::app::plot
