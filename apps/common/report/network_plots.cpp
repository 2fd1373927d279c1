#include "apps/common/report/network_plots.hpp"

#include <fmt/format.h>

#include <set>

#include "apps/common/report/svg_plot.hpp"

namespace keelson::app {
namespace {

using plot::Series;

/// A value that changes at once, and then stays.
class Stairs {
 public:
  Stairs(std::string name, int colour) : series_{std::move(name), {}, {}, Series::Mark::line, colour % 6} {}

  void change(double epoch, double before, double after) {
    if (series_.x.empty()) add(0, before);
    add(epoch, before);
    add(epoch, after);
  }
  Series until(double epoch) {
    if (!series_.x.empty() && epoch > series_.x.back()) add(epoch, series_.y.back());
    return std::move(series_);
  }

 private:
  void add(double x, double y) {
    series_.x.push_back(x);
    series_.y.push_back(y);
  }
  Series series_;
};

double width_in(const NetworkSize& size, const std::string& layer) {
  const auto found = size.widths.find(layer);
  return found == size.widths.end() ? 0 : static_cast<double>(found->second);
}

/// Milliseconds of a step of each epoch, from one epoch's record to the next one's.
Series step_times(const std::vector<EpochRecord>& epochs) {
  Series s{"", {}, {}, Series::Mark::both, 3};
  std::int64_t step = 0;
  for (const EpochRecord& e : epochs) {
    if (e.step > step) {
      s.x.push_back(static_cast<double>(e.epoch));
      s.y.push_back(1e3 * e.seconds.total() / static_cast<double>(e.step - step));
    }
    step = e.step;
  }
  return s;
}

std::string plots(const History& history) {
  std::set<std::string> layers;  // that change
  const auto each_change = [&](auto f) {
    for (const EventRecord& e : history.events)
      if (e.network) f(*e.network);
  };
  each_change([&](const NetworkRecord& n) {
    for (const auto& entry : n.after.widths)
      if (width_in(n.before, entry.first) != static_cast<double>(entry.second)) layers.insert(entry.first);
  });
  if (layers.empty()) return "";
  const double end = history.epochs.empty() ? 0 : static_cast<double>(history.epochs.back().epoch);
  const plot::Axis epoch{"epoch", false, 0.0, end > 0 ? std::optional(end) : std::nullopt};
  plot::Plot count{"Parameters", epoch, {"parameters"}}, width{"Widths", epoch, {"units"}},
      times{"Time of a step", epoch, {"ms a step"}};
  for (plot::Plot* p : {&count, &width, &times}) p->y.min = 0;
  Stairs parameters("", 4);
  each_change([&](const NetworkRecord& n) {
    parameters.change(static_cast<double>(n.epoch), static_cast<double>(n.before.parameters),
                      static_cast<double>(n.after.parameters));
  });
  count.series.push_back(parameters.until(end));
  int colour = 0;
  for (const std::string& layer : layers) {
    Stairs one(layer, colour++);
    each_change([&](const NetworkRecord& n) {
      one.change(static_cast<double>(n.epoch), width_in(n.before, layer), width_in(n.after, layer));
    });
    width.series.push_back(one.until(end));
  }
  times.series.push_back(step_times(history.epochs));
  std::string out = "<div class='grid2'>";
  for (const plot::Plot* p : {&count, &width, &times}) out += "<div class='card'>" + svg(*p) + "</div>";
  return out + "</div>";
}

}  // namespace

std::string network_changes(const History& history) {
  std::string rows;
  for (const EventRecord& e : history.events)
    if (e.event == "network change" || e.event == "step time")
      rows += fmt::format("<tr><td>step {}</td><td class='v'>{}</td></tr>", e.step, plot::escape(e.text));
  if (rows.empty()) return "";
  return "<h2>Network changes</h2><div class='card'><table>" + rows + "</table></div>" + plots(history);
}

}  // namespace keelson::app
