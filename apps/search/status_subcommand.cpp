#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/common/subcommand.hpp"
#include "apps/search/page/search_report.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "engine/base/error.hpp"
#include "search/run/worker.hpp"

namespace keelson::search {
namespace {

using Folders = std::vector<std::string>;

/// Where a member of a population has its weights from, if these are another's.
std::string source_of(const Individual& i) {
  if (i.intervals.empty() || i.intervals.back().source < 0 || i.intervals.back().source == i.id) return "";
  return fmt::format("; from member {}", i.intervals.back().source);
}

ExitCode status(const Folders& folders) {
  for (const auto& folder : folders) {
    const ReadSearch search(folder);
    const Population& p = search.population();
    fmt::print("{}: {}\n", folder, state_of(p));
    for (const Individual& i : p.all())
      if (i.running)
        fmt::print("  {} trains up to {:g} epochs, for {:.0f} s: {}{}\n", i.id, p.settings().epochs_of(i.rung),
                   seconds_since_1970() - i.since, summary_of(i.genome, p.settings().space), source_of(i));
  }
  return ExitCode::done;
}

ExitCode report(const Folders& folders) {
  for (const auto& folder : folders) {
    const ReadSearch search(folder);
    write_report(search);
    fmt::print("report: {}\n", search.folder().report().string());
  }
  return ExitCode::done;
}

void define_for_folders(app::CommandLine& line, const char* name, const char* text, ExitCode (*does)(const Folders&)) {
  auto folders = std::make_shared<Folders>();
  app::Subcommand& v = line.subcommand(name, text, [=](app::Launch& launch) {
    if (folders->empty()) refuse("{}: give the folder of a search", name);
    return launch.world.rank() == 0 ? does(*folders) : ExitCode::done;
  });
  v.positional("folder", *folders, "Folders of searches", "DIR");
}

}  // namespace

void define_status(app::CommandLine& line) {
  define_for_folders(line, "status", "Print what a search has found and is doing, also while it runs", &status);
}

void define_report(app::CommandLine& line) {
  define_for_folders(line, "report", "Write the page of a search, also while it runs", &report);
}

}  // namespace keelson::search
