#include <fmt/format.h>

#include <algorithm>

#include "apps/common/subcommand.hpp"
#include "apps/label/learn/rounds.hpp"
#include "apps/label/page/page.hpp"
#include "apps/label/project/options.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

struct SuggestOptions {
  std::string project, page, annotator = "me";
  BatchOptions batch;
  StopRule stop;
  std::int64_t audit_rounds = 5;
};

std::string way_text(const BatchOptions& o, const AskedBatch& b) {
  if (b.by == "first") return "drawn so that they differ, since nothing was trained yet";
  if (b.images.empty()) return "all drawn at random, to see how good the networks are";
  const std::string spread = o.spread ? fmt::format(", images that differ among the {} first ones", 4 * o.count) : "";
  return fmt::format("{} by {}{}; {} at random, to see how good the networks are", b.images.size(), b.by, spread,
                     b.audit.size());
}

ExitCode suggest(const SuggestOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label suggest runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  Project project(o.project, true);
  const Progress progress = project.progress(o.audit_rounds);
  fmt::print("{} of {} images have labels; {}\n", project.labels().images() - progress.left, project.labels().images(),
             describe(progress, o.stop));
  if (const auto reason = reason_to_stop(progress, o.stop)) {
    fmt::print("stop: {}\n", *reason);
    if (progress.left == 0) return ExitCode::done;
  } else {
    fmt::print("go on\n");
  }
  std::int64_t left = 0;
  if (!project.labels().batches().empty())
    for (const std::int64_t i : order_of(project.labels().batches().back()))
      left += project.labels().is_seen(i) ? 0 : 1;
  if (left > 0) fmt::print("note: {} of the last batch have no label\n", counted(left, "image"));
  const AskedBatch batch = ask_next(project, o.batch);
  const auto images = order_of(batch);
  fmt::print("batch {}: {}: {}\n", project.labels().batches().size(), counted(std::ssize(images), "image"),
             way_text(o.batch, batch));
  if (!o.page.empty()) {
    const auto opened = project.open_images();
    const auto predictions = project.predictions();
    write_atomically(o.page, single_page(project, *opened, predictions ? &*predictions : nullptr, batch, o.annotator),
                     Target::output);
    fmt::print("{}: open it in a browser; its labels come back by keelson-label label --csv\n", o.page);
  } else {
    fmt::print("label them: keelson-label serve --project {}\n", o.project);
  }
  return ExitCode::done;
}

}  // namespace

void define_suggest(app::CommandLine& line) {
  auto o = std::make_shared<SuggestOptions>();
  auto& v = line.subcommand("suggest", "Say whether more labels are needed, and choose the next images to label",
                            [o](app::Launch& launch) { return suggest(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  v.option("--by", o->batch.by,
           "How to choose: by the difference of the two likeliest classes, by what the networks do "
           "not agree on, by entropy, or at random")
      .one_of({"margin", "bald", "entropy", "random"});
  declare_batch(o->batch, v);
  v.option("--target", o->stop.target, "Stop when at least this part of the rest is right, as audit labels say", "PART")
      .between(0.5, 1);
  v.option("--change", o->stop.change, "Stop when fewer predictions than this part change in three rounds; 0: never",
           "PART")
      .between(0, 1);
  v.option("--audit-rounds", o->audit_rounds, "Audit labels that count are those of the last so many batches", "N")
      .positive();
  v.option_without_default("--page", o->page, "Also write the batch as one page that needs no server", "FILE.html")
      .output();
  v.option("--annotator", o->annotator, "Name in the page's labels", "NAME");
}

}  // namespace keelson::label
