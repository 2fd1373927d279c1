#include "apps/label/page/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/png.hpp"
#include "apps/common/report/reliability.hpp"
#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_bars.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/label/page/page.hpp"
#include "engine/base/counted.hpp"

namespace keelson::label {
namespace {

using app::plot::escape;

constexpr std::size_t listed_images = 30;

std::string cells_of(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string text = "<tr>";
  for (const auto& c : cells) text += fmt::format("<{0}>{1}</{0}>", tag, c);
  return text + "</tr>\n";
}

/// Accuracy of each batch's audit, with the batches before as far as they count, over the labels of that time.
std::string audit_plot(const Project& project, std::int64_t audit_rounds) {
  app::plot::Series seen{"right of the audit labels", {}, {}, app::plot::Series::Mark::both, 0},
      low{"95 % sure: at least"}, high{"95 % sure: at most"};
  low.colour = high.colour = 1;
  low.dashed = high.dashed = true;
  const auto& batches = project.labels().batches();
  const auto& rounds = project.labels().rounds();
  for (std::size_t b = 0; b < batches.size(); ++b) {
    if (batches[b].predicted.empty()) continue;
    std::int64_t right = 0, count = 0;
    for (std::size_t c = b + 1 > static_cast<std::size_t>(audit_rounds) ? b + 1 - static_cast<std::size_t>(audit_rounds)
                                                                        : 0;
         c <= b; ++c)
      for (std::size_t i = 0; i < batches[c].predicted.size(); ++i)
        if (const auto label = project.labels().consensus(batches[c].audit[i])) {
          ++count;
          right += *label == batches[c].predicted[i] ? 1 : 0;
        }
    const auto round = std::ranges::find(rounds, batches[b].round, &Round::round);
    if (count == 0 || round == rounds.end()) continue;
    const auto x = static_cast<double>(round->labels);
    for (auto* s : {&seen, &low, &high}) s->x.push_back(x);
    seen.y.push_back(static_cast<double>(right) / static_cast<double>(count));
    low.y.push_back(least_accuracy(right, count));
    high.y.push_back(most_accuracy(right, count));
  }
  app::plot::Plot plot{"Accuracy on what is left", {"labels"}, {"right, of the audit labels"}, {seen, low, high}};
  plot.y.max = 1;
  return app::plot::svg(plot);
}

std::string changes_plot(const Project& project) {
  app::plot::Series s{"", {}, {}, app::plot::Series::Mark::both, 0};
  for (const Round& r : project.labels().rounds())
    if (r.changed >= 0) {
      s.x.push_back(static_cast<double>(r.labels));
      s.y.push_back(100 * r.changed);
    }
  return app::plot::svg(app::plot::Plot{"Predictions that a round has changed", {"labels"}, {"%"}, {s}});
}

std::string left_table(const Project& project, const StoredPredictions& s) {
  std::string text =
      "<table class='narrow'>" +
      cells_of({"predicted, without a label", "images", "probability at least .99", "at least .9", "less"}, "th");
  for (std::int64_t k = 0; k < s.of.classes; ++k) {
    std::int64_t all = 0, sure = 0, fairly = 0;
    for (const std::int64_t i : project.labels().unseen()) {
      const Opinion& o = s.opinions[static_cast<std::size_t>(i)];
      if (o.best() != k) continue;
      const double p = o.p[static_cast<std::size_t>(k)];
      ++all;
      sure += p >= 0.99 ? 1 : 0;
      fairly += p >= 0.9 ? 1 : 0;
    }
    text += cells_of({escape(project.class_name(k)), std::to_string(all), std::to_string(sure),
                      std::to_string(fairly - sure), std::to_string(all - fairly)});
  }
  return text + "</table>";
}

std::string confusion_of(const Project& project, const HeldOut& held) {
  const std::int64_t k = held.joint.classes;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(k * k));
  for (std::size_t i = 0; i < held.labelled.size(); ++i) {
    const auto row = held.p.begin() + static_cast<std::ptrdiff_t>(i) * k;
    ++counts[static_cast<std::size_t>(held.labelled[i].second * k + (std::max_element(row, row + k) - row))];
  }
  std::vector<std::string> head{"label, predicted by networks that have not seen it"};
  for (std::int64_t c = 0; c < k; ++c) head.push_back(escape(project.class_name(c)));
  std::string text = "<table class='narrow'>" + cells_of(head, "th");
  for (std::int64_t r = 0; r < k; ++r) {
    std::vector<std::string> row{escape(project.class_name(r))};
    for (std::int64_t c = 0; c < k; ++c) row.push_back(std::to_string(counts[static_cast<std::size_t>(r * k + c)]));
    text += cells_of(row);
  }
  return text + "</table>";
}

std::string reliability_of(const Project& project, const HeldOut& held) {
  constexpr int bins = 5;  // few images are drawn at random
  ensemble::Reliability reliability(bins);
  for (const JudgedPrediction& j : judged_predictions(held, project.labels().drawn_at_random()))
    reliability.add(j.p, j.right);
  return app::plot::reliability_diagram({app::plot::reliability_line(reliability, "", 0)});
}

std::string picture_tag(const Project& project, const Images& images, std::int64_t image) {
  constexpr std::int64_t edge = 64;
  return fmt::format("<img width=\"96\" height=\"96\" alt=\"image {}\" src=\"data:image/png;base64,{}\">", image,
                     app::base64(picture_of(project, images, image, edge)));
}

std::string place_text(const Images& images, std::int64_t image) {
  return fmt::format("{} ({}, {})", image, escape(images.file_of(image)), images.index_in_file(image));
}

std::string suspicious_table(const Project& project, const Images& images, const HeldOut& held) {
  const auto k = static_cast<std::size_t>(held.joint.classes);
  if (held.joint.wrong.empty()) return "<p class='note'>No label looks wrong.</p>";
  std::vector<std::size_t> by_el2n(held.labelled.size());
  for (std::size_t i = 0; i < by_el2n.size(); ++i) by_el2n[i] = i;
  std::ranges::stable_sort(by_el2n, [&](auto a, auto b) { return held.el2n[a] > held.el2n[b]; });
  std::string text =
      "<table>" +
      cells_of({"image", "", "label", "probability of the label", "likeliest", "EL2N", "place by EL2N"}, "th");
  for (std::size_t n = 0; n < std::min(listed_images, held.joint.wrong.size()); ++n) {
    const auto i = static_cast<std::size_t>(held.joint.wrong[n]);
    const auto& [image, label] = held.labelled[i];
    const auto row = held.p.begin() + static_cast<std::ptrdiff_t>(i * k);
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(k)) - row;
    text += cells_of({place_text(images, image), picture_tag(project, images, image), escape(project.class_name(label)),
                      fmt::format("{:.3f}", row[label]),
                      fmt::format("{} {:.3f}", escape(project.class_name(best)), row[best]),
                      fmt::format("{:.3f}", held.el2n[i]),
                      fmt::format("{} of {}", std::ranges::find(by_el2n, i) - by_el2n.begin() + 1, by_el2n.size())});
  }
  return text + "</table>";
}

std::string people_section(const Project& project, const Images& images) {
  const Labels& labels = project.labels();
  const auto agreements = labels.agreements();
  if (agreements.empty()) return "";
  std::string text = "<h2>People</h2><div class='card'><table class='narrow'>" +
                     cells_of({"", "", "both labelled", "same", "kappa"}, "th");
  for (const auto& a : agreements)
    text += cells_of({escape(a.first), escape(a.second), std::to_string(a.both), std::to_string(a.same),
                      fmt::format("{:.3f}", a.kappa)});
  text += "</table></div><h3>Images on which people disagree</h3><div class='card'><table>" +
          cells_of({"image", "", "labels"}, "th");
  std::size_t shown = 0, all = 0;
  for (std::int64_t i = 0; i < labels.images(); ++i) {
    if (!labels.is_disputed(i)) continue;
    if (++all > listed_images) continue;
    ++shown;
    std::string said;
    for (const auto& [name, mark] : labels.marks(i))
      said += (said.empty() ? "" : "; ") + fmt::format("{}: {}", escape(name), escape(project.class_name(mark.label)));
    text += cells_of({place_text(images, i), picture_tag(project, images, i), said});
  }
  return text + fmt::format("</table><p class='note'>{} of {} shown.</p></div>", shown, all);
}

std::string tile_of(const std::string& value, const std::string& name) {
  return fmt::format("<div class='tile'><b>{}</b><span>{}</span></div>", value, name);
}

}  // namespace

HeldOut judge_labels(std::vector<Labelled> labelled, const std::vector<float>& members, std::int64_t classes) {
  HeldOut held{std::move(labelled), {}, {}, {}};
  const std::size_t of_image = held.labelled.empty() ? 0 : members.size() / held.labelled.size();
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < held.labelled.size(); ++i) {
    const auto p = std::span(members).subspan(i * of_image, of_image);
    const Opinion o = opinion_of(p, classes);
    held.p.insert(held.p.end(), o.p.begin(), o.p.end());
    held.el2n.push_back(el2n(p, classes, held.labelled[i].second));
    labels.push_back(held.labelled[i].second);
  }
  held.joint = confident_joint(held.p, labels, classes);
  return held;
}

std::vector<JudgedPrediction> judged_predictions(const HeldOut& held, const std::set<std::int64_t>& images) {
  std::vector<JudgedPrediction> all;
  for (std::size_t i = 0; i < held.labelled.size(); ++i) {
    if (!images.contains(held.labelled[i].first)) continue;
    const auto row = held.p.begin() + static_cast<std::ptrdiff_t>(i) * held.joint.classes;
    const auto best = std::max_element(row, row + held.joint.classes);
    all.push_back({*best, best - row == held.labelled[i].second});
  }
  return all;
}

std::string suspicious_text(const Project& project, const Images& images, const HeldOut& held, std::int64_t most) {
  std::string text;
  for (std::int64_t n = 0; n < std::min(most, std::ssize(held.joint.wrong)); ++n) {
    const auto i = static_cast<std::size_t>(held.joint.wrong[static_cast<std::size_t>(n)]);
    const auto& [image, label] = held.labelled[i];
    text += fmt::format("  image {} ({}, {}): {}, whose probability is {:.3f}; EL2N {:.3f}\n", image,
                        images.file_of(image), images.index_in_file(image), project.class_name(label),
                        held.p[i * static_cast<std::size_t>(held.joint.classes) + static_cast<std::size_t>(label)],
                        held.el2n[i]);
  }
  return text;
}

std::string render_label_report(const Project& project, const Images& images, const StoredPredictions* s,
                                const HeldOut* held, std::int64_t audit_rounds) {
  const Labels& labels = project.labels();
  const Progress progress = project.progress(audit_rounds);
  const StopRule rule;
  const auto reason = reason_to_stop(progress, rule);
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Labels {0}</title>\n<style>{1}</style>\n<body><main>\n<h1>Labels "
      "{0}</h1>\n"
      "<p class='sub'>{2}</p><div class='tiles'>",
      escape(project.folder().string()), app::report_style, escape(images.describe()));
  text += tile_of(std::to_string(labels.images() - progress.left), "images with a label");
  text += tile_of(std::to_string(progress.left), "images without");
  text += tile_of(std::to_string(labels.rounds().size()), "rounds of training");
  if (progress.audit > 0) {
    text += tile_of(fmt::format("{} of {}", progress.audit_right, progress.audit), "audit labels predicted");
    text += tile_of(fmt::format("{:.1f} %", 100 * least_accuracy(progress.audit_right, progress.audit)),
                    "of the rest right, at least");
  }
  text += fmt::format("</div><p>{}. {}</p>", escape(describe(progress, rule)),
                      reason ? "Reason to stop: " + escape(*reason) + "." : "No reason to stop yet.");
  text += "<div class='grid2'><div class='card'>" + audit_plot(project, audit_rounds) + "</div><div class='card'>" +
          changes_plot(project) + "</div></div>";
  if (s != nullptr) text += "<h2>What is left</h2><div class='card'>" + left_table(project, *s) + "</div>";
  if (held != nullptr) {
    text += "<h2>Confusion</h2><div class='card'>" + confusion_of(project, *held) + "</div>";
    text += "<h2>Probabilities of images that were drawn at random</h2><div class='card'>" +
            reliability_of(project, *held) + "</div>";
    text += fmt::format(
        "<h2>Labels that are probably wrong</h2><div class='card'>{}<p class='note'>{} found by confident learning, "
        "from "
        "networks that were trained without the image. EL2N: distance of the probabilities from the label.</p></div>",
        suspicious_table(project, images, *held), counted(std::ssize(held->joint.wrong), "label"));
  }
  return text + people_section(project, images) + "</main></body></html>\n";
}

}  // namespace keelson::label
