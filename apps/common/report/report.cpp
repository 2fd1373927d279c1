#include "apps/common/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/network_plots.hpp"
#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/common/time_table.hpp"
#include "engine/train/noise_scale.hpp"

namespace keelson::app {
namespace {

using plot::escape;
using Mark = plot::Series::Mark;

std::string duration(double seconds) {
  if (seconds < 100) return fmt::format("{:.3g} s", seconds);
  if (seconds < 6000) return fmt::format("{:.3g} min", seconds / 60);
  return fmt::format("{:.3g} h", seconds / 3600);
}

template <class Record, class Get>
std::vector<double> column(const std::vector<Record>& records, Get get) {
  std::vector<double> v;
  for (const auto& r : records) v.push_back(static_cast<double>(get(r)));
  return v;
}

std::string card(const std::string& inside) { return "<div class='card'>" + inside + "</div>"; }

std::string rate_label(const ReportInput& in) { return in.unit.name + "s per second"; }

std::string loss_label(const ReportInput& in) { return in.unit.per_sample == 1 ? "loss" : "loss per " + in.unit.name; }

std::string tiles(const ReportInput& in) {
  std::string out = "<div class='tiles'>";
  const auto tile = [&](const std::string& value, const std::string& label) {
    out += fmt::format("<div class='tile'><b>{}</b><span>{}</span></div>", escape(value), escape(label));
  };
  tile(in.status, "status");
  const auto& epochs = in.history.epochs;
  if (!epochs.empty()) {
    double best = NAN, seconds = 0;
    for (const auto& e : epochs) {
      if (std::isnan(best) || in.metric->better(e.metric, best)) best = e.metric;
      seconds += e.seconds.total() + e.validation_seconds;
    }
    tile(fmt::format("{}", epochs.back().epoch), "epochs");
    if (std::isfinite(best)) tile(in.metric->text(best), "best validation " + in.metric->name());
    if (std::isfinite(epochs.back().validation_loss))
      tile(fmt::format("{:.4g}", epochs.back().validation_loss), "last validation " + loss_label(in));
    tile(rate_text(epochs.back().rate), rate_label(in));
    tile(duration(seconds), "training and validation");
  } else if (!in.history.steps.empty()) {
    tile(fmt::format("{}", in.history.steps.back().step), "steps");
    tile(fmt::format("{:.4g}", in.history.steps.back().loss), "last " + loss_label(in));
  }
  return out + "</div>";
}

plot::Plot metric_plot(const ReportInput& in, const plot::Axis& epoch) {
  const auto& epochs = in.history.epochs;
  const auto ends = column(epochs, [](auto& r) { return r.epoch; });
  const bool of_loss = in.metric->of_loss(0).has_value();
  const auto name = in.metric->name();
  plot::Plot p{(of_loss ? "" : "Validation ") + name, epoch, {name, of_loss}, {}};
  std::vector<std::string> parts = in.metric->value_names();
  for (const auto& t : in.targets) parts.push_back(t.name);
  for (std::size_t t = 0; t < parts.size(); ++t)
    p.series.push_back({parts[t], ends,
                        column(epochs, [&](auto& r) { return t < r.metric_values.size() ? r.metric_values[t] : NAN; }),
                        Mark::both, static_cast<int>(t + 1) % 6});
  const auto values = column(epochs, [](auto& r) { return r.metric; });
  if (!of_loss) {
    p.series.push_back({"mean", ends, values, Mark::both, 0});
  } else {
    const auto training = column(epochs, [&](auto& r) { return *in.metric->of_loss(r.train_loss); });
    p.series.push_back({"training", ends, training, Mark::both, 0});
    p.series.push_back({"validation", ends, values, Mark::both, 1});
  }
  if (in.target > 0 && !ends.empty())
    p.series.push_back({"goal", {0, ends.back()}, {in.target, in.target}, Mark::line, 5, false, true});
  return p;
}

std::string curves(const ReportInput& in) {
  const auto& steps = in.history.steps;
  const auto& epochs = in.history.epochs;
  const auto at = column(steps, [](auto& r) { return r.epoch; });
  const auto ends = column(epochs, [](auto& r) { return r.epoch; });

  const plot::Axis epoch{
      "epoch", false, 0.0,
      at.empty() ? std::nullopt : std::optional(std::max(at.back(), ends.empty() ? 0 : ends.back()))};
  plot::Plot loss{"Loss", epoch, {loss_label(in), true}, {}};
  const plot::Series each{"", at, column(steps, [](auto& r) { return r.loss; }), Mark::line, 0, true};
  loss.series.push_back(plot::thinned(each, 400));
  loss.series.push_back({"training", ends, column(epochs, [](auto& r) { return r.train_loss; }), Mark::both, 0});
  loss.series.push_back({"validation", ends, column(epochs, [](auto& r) { return r.validation_loss; }), Mark::both, 1});

  const auto metric = metric_plot(in, epoch);

  plot::Plot rate{"Learning rate", epoch, {"learning rate"}, {}};
  rate.series.push_back(
      plot::thinned({"", at, column(steps, [](auto& r) { return r.learning_rate; }), Mark::line, 2}, 400));
  rate.y.min = 0;

  plot::Plot speed{"Throughput, all ranks", epoch, {rate_label(in)}, {}};
  speed.series.push_back(plot::thinned({"", at, column(steps, [](auto& r) { return r.rate; }), Mark::line, 3}, 200));
  speed.y.min = 0;
  std::string samples;
  const auto used = [](const EpochRecord& a, const EpochRecord& b) { return a.samples < b.samples; };
  if (!epochs.empty() &&
      std::ranges::min_element(epochs, used)->samples < std::ranges::max_element(epochs, used)->samples) {
    plot::Plot p{"Samples used", epoch, {"training samples"}, {}};
    p.series.push_back({"", ends, column(epochs, [](auto& r) { return r.samples; }), Mark::both, 4});
    p.y.min = 0;
    samples = card(svg(p));
  }
  return "<div class='grid2'>" + card(svg(loss)) + card(svg(metric)) + card(svg(rate)) + card(svg(speed)) + samples +
         "</div>";
}

/// If the run has measured the noise scale.
std::string noise_plot(const ReportInput& in) {
  const auto& epochs = in.history.epochs;
  const auto& steps = in.history.steps;
  const auto scales = [](const auto& records) { return column(records, [](auto& r) { return r.noise.samples(); }); };
  const auto at = column(steps, [](auto& r) { return r.epoch; });
  const auto ends = column(epochs, [](auto& r) { return r.epoch; });
  if (std::ranges::none_of(scales(steps), [](double s) { return std::isfinite(s); }) &&
      std::ranges::none_of(scales(epochs), [](double s) { return std::isfinite(s); }))
    return "";
  plot::Plot p{"Gradient noise scale", {"epoch", false, 0.0}, {"samples", true}, {}};
  p.series.push_back(plot::thinned({"", at, scales(steps), Mark::line, 0, true}, 400));
  p.series.push_back({"noise scale", ends, scales(epochs), Mark::both, 0});
  const double end = std::max(at.empty() ? 0 : at.back(), ends.empty() ? 0 : ends.back());
  const auto batch = static_cast<double>(in.batch);
  if (in.batch > 0) p.series.push_back({"batch", {0, end}, {batch, batch}, Mark::line, 5, false, true});
  const NoiseScale& last = epochs.empty() ? steps.back().noise : epochs.back().noise;
  return "<h2>Noise of the gradient</h2><div class='grid2'>" + card(svg(p)) + "</div><p class='note'>" +
         escape(describe(last, in.batch)) + ".</p>";
}

std::string error_table(const ReportInput& in) {
  std::string out = fmt::format(
      "<table class='narrow'><tr><th>target</th><th class='n'>{}</th><th class='n'>always the mean</th><th "
      "class='n'>ratio</th>"
      "<th class='n'>MAE, physical units</th></tr>",
      escape(in.metric->name()));
  for (const auto& t : in.targets) {
    out += fmt::format(
        "<tr><td>{}</td><td class='n'>{:.4f}</td><td class='n'>{}</td><td class='n'>{}</td><td "
        "class='n'>{:.4g}</td></tr>",
        escape(t.name), t.error, t.baseline > 0 ? fmt::format("{:.4f}", t.baseline) : "",
        t.baseline > 0 ? fmt::format("{:.2f}", t.error / t.baseline) : "", t.physical);
  }
  return out + "</table>";
}

std::string predictions(const ReportInput& in) {
  if (in.targets.empty()) return "";
  std::string out =
      "<h2>Predicted against true</h2>" + card(error_table(in)) + "<div class='grid4' style='margin-top:14px'>";
  int colour = 1;
  for (const auto& t : in.targets) {
    plot::Plot p{t.name, {"true"}, {"predicted"}, {}};
    p.width = 280;
    p.height = 280;
    p.diagonal = true;
    plot::Series s{"", {}, {}, Mark::points, colour++ % 6};
    s.x = t.truth;
    s.y = t.predicted;
    p.series.push_back(std::move(s));
    out += card(svg(p));
  }
  return out + "</div><p class='note'>" + escape(in.targets_note) + "</p>";
}

std::string times_of_ranks(const RunTimes& t) {
  std::string out = fmt::format(
      "<table class='narrow'><tr><th>{} ranks, {:.1f} s</th><th class='n'>share</th><th class='n'>mean, s</th>"
      "<th class='n'>least, s</th><th class='n'>rank</th><th class='n'>most, s</th><th class='n'>rank</th></tr>",
      t.ranks, t.seconds);
  for (std::size_t p = 0; p < time_parts; ++p) {
    const auto part = static_cast<TimePart>(p);
    const RunTimes::Spread& s = t[part];
    out += fmt::format(
        "<tr><td>{}</td><td class='n'>{:.1f} %</td><td class='n'>{:.2f}</td><td class='n'>{:.2f}</td><td "
        "class='n'>{}</td><td class='n'>{:.2f}</td><td class='n'>{}</td></tr>",
        to_string(part), 100 * t.share(part), s.mean, s.least, s.least_rank, s.most, s.most_rank);
  }
  return out + "</table><p class='note'>" + escape(advice(t)) + ".</p>";
}

std::string time_split(const ReportInput& in) {
  TimeSplit sum;
  double validation = 0;
  for (const auto& s : in.history.steps) sum += s.seconds;
  for (const auto& e : in.history.epochs) validation += e.validation_seconds;
  return "<h2>Where the time went</h2>" +
         card(plot::stacked_bar({{"forward, backward, update", sum.compute},
                                 {"waiting for other ranks' gradients", sum.exchange},
                                 {"waiting for samples to be read", sum.input.reading},
                                 {"waiting for samples to be decoded", sum.input.decoding},
                                 {"waiting for samples of other ranks", sum.input.ranks},
                                 {"copying samples", sum.copy},
                                 {"validation", validation}},
                                "s") +
              "<p class='note'>Wall time of rank 0. Exchange that goes on behind the backward pass costs no time of "
              "its own and is not "
              "counted; time lost to slower ranks counts as waiting for gradients.</p>") +
         (in.times ? card(times_of_ranks(*in.times)) : "");
}

std::string losses(const ReportInput& in) {
  std::string rows;
  for (const auto& e : in.history.events)
    if (e.event == "ranks lost") rows += fmt::format("<tr><td class='v'>{}</td></tr>", escape(e.text));
  return rows.empty() ? "" : "<h2>Ranks lost</h2><div class='card'><table>" + rows + "</table></div>";
}

std::string facts(const std::string& title, const ReportInput::Facts& rows) {
  std::string out = "<div><h2>" + title + "</h2><div class='card'><table>";
  for (const auto& [key, value] : rows)
    out += fmt::format("<tr><td class='k'>{}</td><td class='v'>{}</td></tr>", escape(key), escape(value));
  return out + "</table></div></div>";
}

std::string plan_table(const ReportInput& in) {
  if (in.plan.empty()) return "";
  double gflop = 0, ms = 0;
  std::string rows;
  const auto cell = [](double v) {
    return v <= 0 ? std::string() : v < 1000 ? fmt::format("{:.3g}", v) : fmt::format("{:.0f}", v);
  };
  for (const auto& r : in.plan) {
    gflop += r.gflop / static_cast<double>(r.period);
    ms += r.milliseconds_per_step();
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class='n'>{}</td><td "
        "class='n'>{}</td><td class='n'>{}</td>"
        "<td class='n'>{}</td></tr>",
        escape(r.phase), escape(r.node), escape(r.op_with_period()), escape(r.backend), escape(r.kernel),
        escape(r.layout), cell(r.gflop), cell(r.megabytes), cell(r.milliseconds),
        r.milliseconds > 0 ? cell(r.gflop / r.milliseconds * 1000) : "");
  }
  return fmt::format(
      "<h2>The plan of a step</h2><div class='card "
      "plan'><table><tr><th>phase</th><th>node</th><th>op</th><th>backend</th><th>kernel</th>"
      "<th>layout</th><th class='n'>GFLOP</th><th class='n'>MB</th><th class='n'>ms</th><th "
      "class='n'>GFLOP/s</th></tr>{}"
      "<tr><td><b>sum</b></td><td colspan='5'></td><td class='n'><b>{}</b></td><td></td><td "
      "class='n'><b>{}</b></td><td class='n'><b>{}</b></td>"
      "</tr></table></div><p class='note'>{}</p>",
      rows, cell(gflop), cell(ms), ms > 0 ? cell(gflop / ms * 1000) : "", escape(in.plan_note));
}

}  // namespace

std::string render_report(const ReportInput& in) {
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>" + escape(in.title) + "</title>";
  out += std::string("<style>") + report_style + "</style></head><body><main>";
  out += "<h1>" + escape(in.title) + "</h1><p class='sub'>" + escape(in.subtitle) + "</p>";
  out += tiles(in) + "<h2>Training</h2>" + curves(in) + noise_plot(in) + predictions(in);
  for (const auto& s : in.sections) out += "<h2>" + escape(s.title) + "</h2>" + s.html;
  out += time_split(in) + losses(in) + network_changes(in.history);
  out += "<div class='grid2'>" + facts("Machine", in.machine) + facts("Configuration", in.configuration) + "</div>";
  return out + plan_table(in) + "</main></body></html>\n";
}

}  // namespace keelson::app
