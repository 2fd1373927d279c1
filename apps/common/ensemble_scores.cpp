#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/report/reliability.hpp"
#include "apps/common/report/report_style.hpp"
#include "apps/common/report/sample_list.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::app {
namespace {

constexpr std::size_t members_in_plot = 5;

double mean_of_members(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double best_of_members(const ScoreRow& row) {
  const auto [least, most] = std::minmax_element(row.members.begin(), row.members.end());
  return row.higher_is_better ? *most : *least;
}

nlohmann::ordered_json finite(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string shown(double value) { return std::isfinite(value) ? fmt::format("{:.5f}", value) : "-"; }

std::string page_card(const std::string& inside) { return "<div class='card'>" + inside + "</div>"; }

bool are_of_one_network(const std::vector<ScoreRow>& rows) {
  return std::ranges::all_of(rows, [](const ScoreRow& r) { return r.members.size() < 2; });
}

}  // namespace

void print_scores(const std::vector<ScoreRow>& rows) {
  if (are_of_one_network(rows)) {
    fmt::print("\n");
    for (const auto& r : rows) fmt::print("{:<34}{:>12}\n", r.name, shown(r.ensemble));
    return;
  }
  fmt::print("\n{:<34}{:>12}{:>16}{:>14}\n", "", "ensemble", "members' mean", "best member");
  for (const auto& r : rows)
    fmt::print("{:<34}{:>12}{:>16}{:>14}\n", r.name, shown(r.ensemble),
               r.members.empty() ? "" : shown(mean_of_members(r.members)),
               r.members.empty() ? "" : shown(best_of_members(r)));
}

nlohmann::ordered_json scores_to_json(const std::vector<ScoreRow>& rows) {
  nlohmann::ordered_json j;
  for (const auto& r : rows) {
    auto& row = j[r.name];
    row["ensemble"] = finite(r.ensemble);
    for (const double m : r.members) row["members"].push_back(finite(m));
  }
  return j;
}

std::vector<ScoreRow> class_rows(const ensemble::ClassEnsemble& s) {
  std::vector<ScoreRow> rows{{"NLL", s.ensemble().nll(), {}},
                             {"Brier score", s.ensemble().brier(), {}},
                             {"ECE", s.ensemble().reliability().ece(), {}},
                             {"accuracy", s.ensemble().accuracy(), {}, true}};
  for (const auto& m : s.members()) {
    rows[0].members.push_back(m.nll());
    rows[1].members.push_back(m.brier());
    rows[2].members.push_back(m.reliability().ece());
    rows[3].members.push_back(m.accuracy());
  }
  return rows;
}

nlohmann::ordered_json class_facts(const ensemble::ClassEnsemble& s, double temperature) {
  nlohmann::ordered_json j{{"predictive_entropy", s.predictive_entropy()},
                           {"mean_entropy", s.mean_entropy()},
                           {"bald", s.bald()},
                           {"deviation", s.deviation()},
                           {"temperature", temperature}};
  for (const auto& b : s.ensemble().reliability().bins())
    j["reliability"].push_back({{"count", b.count}, {"confidence", b.confidence}, {"accuracy", b.accuracy}});
  return j;
}

void print_class_facts(const ensemble::ClassEnsemble& s, double temperature, const std::string& calibrated_on) {
  if (s.members().size() > 1)
    fmt::print(
        "\nentropy {:.5f} nats: {:.5f} of it in the data, as the members see it, and {:.5f} since the members do not "
        "agree\nmean standard deviation of the members' probabilities: {:.5f}\n",
        s.predictive_entropy(), s.mean_entropy(), s.bald(), s.deviation());
  if (!calibrated_on.empty()) fmt::print("temperature {:.4f}, fitted on {}\n", temperature, calibrated_on);
}

std::string reliability_diagram(const ensemble::ClassEnsemble& s) {
  std::vector<plot::Series> lines;
  for (std::size_t m = 0; m < std::min(s.members().size(), members_in_plot); ++m) {
    lines.push_back(plot::reliability_line(s.members()[m].reliability(), m == 0 ? "members" : "", 1));
    lines.back().faint = true;
  }
  lines.push_back(plot::reliability_line(s.ensemble().reliability(), "ensemble", 0));
  return page_card(plot::reliability_diagram(std::move(lines)));
}

std::string pit_histograms(const std::vector<ensemble::ValueEnsemble>& targets, const std::vector<std::string>& names) {
  std::string out = "<div class='grid4'>";
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto& pit = targets[t].pit();
    plot::Plot p{names[t], {"probability integral transform", false, 0.0, 1.0}, {"samples", false, 0.0}, {}};
    p.width = p.height = 280;
    plot::Series steps{"", {}, {}, plot::Series::Mark::line, static_cast<int>(t % 6)};
    for (int b = 0; b < pit.bins(); ++b)
      for (const int side : {0, 1}) {
        steps.x.push_back(static_cast<double>(b + side) / pit.bins());
        steps.y.push_back(static_cast<double>(pit.counts()[static_cast<std::size_t>(b)]));
      }
    const double flat = static_cast<double>(pit.total()) / pit.bins();
    p.series.push_back(std::move(steps));
    p.series.push_back({"calibrated", {0, 1}, {flat, flat}, plot::Series::Mark::line, 5, false, true});
    out += page_card(plot::svg(p));
  }
  return out +
         "</div><p class='note'>Flat if the predictions are calibrated; a U if they are too sure, a hill if they are "
         "not "
         "sure enough.</p>";
}

std::string list_out_of_bag(const EvaluationOptions& o, MemberNetworks& networks, Communicator& world,
                            const std::function<std::unique_ptr<const Dataset>()>& open,
                            const MemberNetworks::Outputs& outputs) {
  if (o.out_of_bag.empty()) return "";
  const auto& config = networks.state().config;
  const auto is_set = [&](const char* option, const char* unset) {
    return config.contains(option) && config.at(option) != unset;
  };
  if (!is_set("bag", "false"))
    refuse(
        "--out-of-bag: the members of {} were trained without --bag, so each has learned from all samples; train an "
        "ensemble with --bag",
        o.checkpoint);
  if (is_set("skip-broken", "0"))
    refuse("--out-of-bag: the members of {} were trained with --skip-broken, which numbers the samples anew",
           o.checkpoint);
  std::vector<std::uint64_t> seeds;
  for (std::int64_t m = 0; m < networks.size(); ++m) seeds.push_back(networks.checkpoint(m).state().seed);
  const auto data = open();
  ensemble::OutOfBag samples(std::move(seeds));
  networks.run(*data, outputs, samples);
  if (world.rank() != 0) return "";
  write_atomically(o.out_of_bag, out_of_bag_csv(samples, *data), Target::output);
  return "<h2>Training samples out of bag</h2>" + out_of_bag_table(samples, *data);
}

std::string score_table(const std::vector<ScoreRow>& rows) {
  if (are_of_one_network(rows)) {
    std::string out = "<table class='narrow'>";
    for (const auto& r : rows)
      out += fmt::format("<tr><td>{}</td><td class='n'>{}</td></tr>", plot::escape(r.name), shown(r.ensemble));
    return page_card(out + "</table>");
  }
  std::string out =
      "<table class='narrow'><tr><th></th><th class='n'>ensemble</th><th class='n'>members' mean</th><th "
      "class='n'>best "
      "member</th></tr>";
  for (const auto& r : rows)
    out +=
        fmt::format("<tr><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td></tr>",
                    plot::escape(r.name), shown(r.ensemble), r.members.empty() ? "" : shown(mean_of_members(r.members)),
                    r.members.empty() ? "" : shown(best_of_members(r)));
  return page_card(out + "</table>");
}

void write_ensemble_report(const EvaluationOptions& o, const std::string& title, const std::string& subtitle,
                           const std::string& html) {
  if (o.report.empty()) return;
  std::string page =
      "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,initial-scale=1'><title>" +
      plot::escape(title) + "</title><style>" + report_style + "</style></head><body><main><h1>" + plot::escape(title) +
      "</h1><p class='sub'>" + plot::escape(subtitle) + "</p>" + html + "</main></body></html>\n";
  write_atomically(o.report, page, Target::output);
}

void declare_requirements(std::vector<std::string>& require, Subcommand& v, const std::string& examples) {
  v.option_without_default("--require", require, "Fail (exit code 1) unless a score is this good, e.g. " + examples,
                           "SCORE:VALUE,...")
      .comma_separated();
}

void check_requirements(const std::vector<std::string>& require, const std::vector<ScoreRow>& rows) {
  for (const std::string& text : require) {
    const auto colon = text.rfind(':');
    const auto number = colon == text.npos ? std::nullopt : parse_number<double>(text.substr(colon + 1));
    const auto row = std::ranges::find(rows, text.substr(0, colon), &app::ScoreRow::name);
    if (!number || row == rows.end()) {
      std::string names;
      for (const auto& r : rows) names += (names.empty() ? "" : ", ") + r.name;
      refuse("--require {}: expected SCORE:VALUE with one of the scores {}", text, names);
    }
    const bool good = row->higher_is_better ? row->ensemble >= *number : row->ensemble <= *number;
    if (!good)
      fail("the network is not good enough: {} is {:.4f}, expected {} {}", row->name, row->ensemble,
           row->higher_is_better ? "at least" : "at most", text.substr(colon + 1));
  }
}

std::string confusion_table(const ConfusionMatrix& m, const std::vector<std::string>& classes) {
  const auto name = [&](std::int64_t k) {
    return classes.empty() ? fmt::format("class {}", k) : plot::escape(classes[static_cast<std::size_t>(k)]);
  };
  std::string html = "<table class='narrow'><tr><th>true, predicted</th>";
  for (std::int64_t k = 0; k < m.classes(); ++k) html += fmt::format("<th class='n'>{}</th>", name(k));
  html += "<th class='n'>found</th></tr>";
  for (std::int64_t t = 0; t < m.classes(); ++t) {
    html += fmt::format("<tr><td>{}</td>", name(t));
    std::int64_t of_class = 0;
    for (std::int64_t k = 0; k < m.classes(); ++k) {
      of_class += m(t, k);
      html += fmt::format("<td class='n'>{}</td>", m(t, k));
    }
    html += fmt::format("<td class='n'>{:.1f} %</td></tr>",
                        100 * static_cast<double>(m(t, t)) / static_cast<double>(std::max<std::int64_t>(1, of_class)));
  }
  return html + "</table>";
}

}  // namespace keelson::app
