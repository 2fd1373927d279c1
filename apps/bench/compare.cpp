#include <fmt/format.h>

#include <filesystem>

#include "apps/bench/compare/comparison_page.hpp"
#include "apps/bench/compare/measure.hpp"
#include "apps/bench/networks.hpp"
#include "apps/bench/peaks.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"

namespace keelson::bench {
namespace {

struct CompareOptions {
  comparison::MeasureOptions measure;
  std::vector<std::string> files;
  std::string out, html;
  std::int64_t samples = 524288;
};

void require_folder(const std::string& option, const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder))
    refuse("{} {}: there is no folder {}; make it first", option, file, folder.string());
}

/// Draws the machine files, and prints the page's path.
void draw_page(const CompareOptions& o, const std::vector<comparison::MachineFile>& machines) {
  write_atomically(o.html, comparison::render_comparison({machines, comparison::published_figures(), o.samples}),
                   Target::output);
  fmt::print("page: {}\n", o.html);
}

ExitCode run_compare(const CompareOptions& o, app::Launch& launch) {
  const bool speaks = launch.world.rank() == 0;
  if (!o.html.empty()) require_folder("--html", o.html);
  if (!o.files.empty()) {
    if (!o.out.empty())
      refuse("compare takes --out FILE to measure this machine, or the FILEs of machines to draw, not both");
    if (o.html.empty()) refuse("--html is missing: give the file for the page of {} machine file(s)", o.files.size());
    if (launch.world.size() > 1) refuse("machine files are merged by one process: start it without mpirun or srun");
    std::vector<comparison::MachineFile> machines;
    for (const auto& file : o.files) machines.push_back(comparison::read_machine_file(file));
    draw_page(o, machines);
    return ExitCode::done;
  }
  if (o.out.empty())
    refuse("compare needs --out FILE to measure this machine, or machine files and --html PAGE to draw them");
  require_folder("--out", o.out);
  auto measure = o.measure;
  if (measure.scratch.empty()) measure.scratch = std::filesystem::absolute(o.out).parent_path().string();
  comparison::check(measure);
  const auto machine = comparison::measure_machine(measure, launch);
  if (!speaks) return ExitCode::done;
  comparison::write_machine_file(machine, o.out);
  fmt::print("machine: {}\n", o.out);
  if (!o.html.empty()) draw_page(o, {machine});
  return ExitCode::done;
}

}  // namespace

void define_compare(app::CommandLine& line) {
  auto o = std::make_shared<CompareOptions>();
  auto& m = o->measure;
  auto& v =
      line.subcommand("compare", "Measure a machine into a file, and draw the files of many machines side by side",
                      [o](app::Launch& launch) { return run_compare(*o, launch); });
  v.positional("files", o->files, "Machine files to draw with --html", "FILE...");
  v.option_without_default("--out", o->out, "Measure this machine and write its file; also under mpirun or srun",
                           "FILE")
      .output();
  v.option_without_default("--html", o->html, "Draw one page with all machines and published figures", "FILE").output();
  v.option("--samples", o->samples, "The page also gives time, energy and price for so many samples", "N").positive();
  v.option_without_default("--name", m.name, "The machine's name on the page; default: its host's", "NAME");
  v.option("--price-per-hour", m.price_per_hour, "Price of all nodes of the job, in your currency; 0: unknown", "PRICE")
      .non_negative();
  v.flag("--quick", m.quick, "Use small sizes and few repetitions, for less than a minute");
  v.option_without_default("--nets", m.nets, "Networks; default: all", "NET,...").comma_separated();
  v.option_without_default("--sizes", m.sizes,
                           "small, published, or sizes as for `step` (32, 32x48), each for the networks that accept "
                           "it; default: small, and without --quick also published",
                           "SIZE,...")
      .comma_separated();
  v.option_without_default("--precisions", m.precisions,
                           "Precisions; default: those for which the device has multiply instructions", "NAME,...")
      .comma_separated();
  v.option("--batch", m.batch, "Samples per rank and step; 0: as in the network's recipe, on a GPU eight times as many",
           "SAMPLES")
      .non_negative();
  v.option("--step-limit", m.step_limit, "Leave out steps that would take longer; 0: 8, with --quick 1", "SECONDS")
      .non_negative();
  v.option_without_default("--data", m.data, "Universes for the subcommand input's measurement; default: made-up ones",
                           "DIR")
      .differs_between_ranks();
  v.option_without_default("--scratch", m.scratch,
                           "Folder for made-up universes, which all ranks see; default: the folder of --out", "DIR");
  v.option("--powercap", m.powercap, "Folder with the processors' energy counters", "DIR");
  app::declare(m.device, v);
  option_backend(v, m.backend);
  option_remeasure(v, m.remeasure);
}

}  // namespace keelson::bench
