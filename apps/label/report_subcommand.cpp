#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/learn/ensemble.hpp"
#include "apps/label/page/report.hpp"
#include "apps/label/project/csv.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

struct ReportOptions {
  std::string project, html, csv;
  std::int64_t folds = 4, audit_rounds = 5;
  double confidence = -1;  ///< least probability of a label of the networks; below 0: what the labels support
  double target = 0.97;
  bool json = false;
  app::DeviceOptions device;
};

/// What networks say about the labels that they have not seen; none without enough labels.
std::optional<HeldOut> judge(const ReportOptions& o, const Project& project, app::Launch& launch) {
  const auto labelled = project.labels().labelled();
  if (o.folds < 2 || std::ssize(labelled) < 10 * o.folds) return std::nullopt;
  const auto device = app::open_device(o.device, launch);
  const Features features = project.features();
  const std::int64_t classes = std::ssize(project.settings().classes);
  const auto members = held_out(*device.context, features, classes, project.training_options(), labelled, o.folds);
  return judge_labels(labelled, members, classes);
}

/// From which probability on the CSV has labels of the networks.
struct Confidence {
  double least = 2;         ///< above 1: none of them
  std::int64_t judged = 0;  ///< labels that say so
};

Confidence confidence_of(const ReportOptions& o, const Project& project, const HeldOut* held) {
  if (o.confidence >= 0) return {.least = o.confidence};
  if (held == nullptr) return {};
  const auto judged = judged_predictions(*held, project.labels().drawn_at_random());
  return {supported_confidence(judged, o.target).value_or(Confidence{}.least), std::ssize(judged)};
}

std::string confidence_text(const ReportOptions& o, const Confidence& c) {
  if (o.confidence >= 0)
    return fmt::format("{}: with the networks' labels of probability {:g} and more", o.csv, c.least);
  if (c.least > 1)
    return fmt::format(
        "{}: no labels of the networks: {} of images that were drawn at random do not show for any probability that "
        "{:g} % "
        "of the networks' labels are right; label a batch of keelson-label suggest --audit 1, lower --target, or "
        "give --confidence",
        o.csv, counted(c.judged, "label"), 100 * o.target);
  return fmt::format(
      "{}: with the networks' labels of probability {:.3f} and more: at least {:g} % of them are right (95 % sure), as "
      "{} "
      "of images that were drawn at random show",
      o.csv, c.least, 100 * o.target, counted(c.judged, "label"));
}

void print_json(const Project& project, const HeldOut* held, const ReportOptions& o, const Confidence& confidence) {
  const Progress p = project.progress(o.audit_rounds);
  const auto reason = reason_to_stop(p, StopRule{});
  nlohmann::ordered_json j{
      {"images", project.labels().images()},
      {"labelled", project.labels().images() - p.left},
      {"rounds", project.labels().rounds().size()},
      {"audit",
       {{"labels", p.audit}, {"predicted", p.audit_right}, {"least", least_accuracy(p.audit_right, p.audit)}}}};
  j["stop"] = reason ? nlohmann::ordered_json(*reason) : nlohmann::ordered_json();
  j["confidence"] = confidence.least > 1 ? nlohmann::ordered_json() : nlohmann::ordered_json(confidence.least);
  if (held != nullptr) {
    j["joint"] = held->joint.counts;
    for (const std::int64_t i : held->joint.wrong)
      j["wrong"].push_back(held->labelled[static_cast<std::size_t>(i)].first);
  }
  for (const auto& a : project.labels().agreements())
    j["agreement"].push_back({{"people", {a.first, a.second}}, {"both", a.both}, {"same", a.same}, {"kappa", a.kappa}});
  fmt::print("{}\n", j.dump(2));
}

ExitCode report(const ReportOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label report runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  const Project project(o.project, false);
  const auto images = project.open_images();
  const auto stored = project.predictions();
  const StoredPredictions* predictions = stored ? &*stored : nullptr;
  const auto held = judge(o, project, launch);
  const std::string html = o.html.empty() ? (project.folder() / "report.html").string() : o.html;
  write_atomically(html, render_label_report(project, *images, predictions, held ? &*held : nullptr, o.audit_rounds),
                   Target::output);
  const Confidence confidence = confidence_of(o, project, held ? &*held : nullptr);
  if (!o.csv.empty())
    write_atomically(o.csv, labels_csv(project, *images, predictions, confidence.least), Target::output);
  if (o.json) {
    print_json(project, held ? &*held : nullptr, o, confidence);
    return ExitCode::done;
  }
  const Progress progress = project.progress(o.audit_rounds);
  fmt::print("{} of {} images have labels; {}\n", project.labels().images() - progress.left, project.labels().images(),
             describe(progress, StopRule{}));
  if (held) {
    constexpr std::int64_t most = 10;
    fmt::print(
        "{} probably wrong{}\n{}", counted(std::ssize(held->joint.wrong), "label"),
        held->joint.wrong.empty() ? "" : ", the likeliest first:", suspicious_text(project, *images, *held, most));
  } else {
    fmt::print("labels were not judged: {} are needed for --folds {}\n", 10 * o.folds, o.folds);
  }
  for (const auto& a : project.labels().agreements())
    fmt::print("{} and {} agree on {} of {} images (kappa {:.3f})\n", a.first, a.second, a.same, a.both, a.kappa);
  if (!o.csv.empty()) fmt::print("{}\n", confidence_text(o, confidence));
  fmt::print("report: {}\n", html);
  return ExitCode::done;
}

}  // namespace

void define_report(app::CommandLine& line) {
  auto o = std::make_shared<ReportOptions>();
  auto& v = line.subcommand("report", "Show how good networks and labels are, and which labels are probably wrong",
                            [o](app::Launch& launch) { return report(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  v.option_without_default("--html", o->html, "The report; default: report.html in the project's folder", "FILE")
      .output();
  v.option_without_default("--csv", o->csv,
                           "Also write all labels as CSV: of people, and of the networks where they are sure", "FILE")
      .output();
  v.option_without_default("--confidence", o->confidence,
                           "Least probability of a label of the networks in the CSV; default: the smallest at which "
                           "--target of them are right, as the labels of people show",
                           "PART")
      .between(0, 1);
  v.option("--target", o->target, "Part of the networks' labels in the CSV that are to be right", "PART")
      .between(0.5, 1);
  v.option("--folds", o->folds, "Judge labels by networks that were trained without them: in so many parts; 0: do not",
           "N")
      .between(0, 20);
  v.option("--audit-rounds", o->audit_rounds, "Audit labels that count are those of the last so many batches", "N")
      .positive();
  v.flag("--json", o->json, "Print JSON");
  declare(o->device, v);
}

}  // namespace keelson::label
