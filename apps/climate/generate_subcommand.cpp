#include <fmt/format.h>

#include "apps/climate/subcommands.hpp"
#include "apps/climate/weather/generate.hpp"
#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::climate {
namespace {

struct GenerateCommandOptions {
  GenerateOptions make;
  std::string out;
};

/// Thrown between snapshots when the user or the batch system wants the program to end.
struct Interrupted {};

ExitCode generate(GenerateCommandOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets train/, validation/, test/ and stats.h5");
  o.make.directory = o.out;
  Generator generator(o.make, world, launch.placement.threads);
  generator.prepare();
  Interrupt::install();
  app::Progress progress("snapshot", world.size());
  bool interrupted = false;
  try {
    generator.make([&](std::int64_t done, std::int64_t total) {
      if (world.rank() == 0) progress.show(done, total);
      if (done < total && Interrupt::requested()) throw Interrupted();
    });
  } catch (const Interrupted&) {
    interrupted = true;  // complete files stay; the same command makes the others
  }
  // One rank may need long for its last snapshot while the others wait; a signal then ends the program at once.
  Interrupt::uninstall();
  std::int64_t counts[3] = {generator.written(), generator.found(), interrupted};
  world.allreduce(counts, 3, Reduction::sum);
  if (counts[2] > 0) {
    if (world.rank() == 0) fmt::print("interrupted; the same command makes the missing files\n");
    return ExitCode::interrupted;
  }
  const Statistics s = generator.write_statistics();
  if (world.rank() != 0) return ExitCode::done;
  fmt::print("{}: {} of {} x {} points made, {} were there already\n", o.out, counted(counts[0], "snapshot"),
             o.make.grid.rows, o.make.grid.columns, counts[1]);
  if (s.snapshots > 0) {
    fmt::print("training pixels: {:.3f} % background, {:.3f} % tropical cyclones, {:.3f} % atmospheric rivers\n",
               100 * s.shares[kBackground], 100 * s.shares[kCyclone], 100 * s.shares[kRiver]);
  }
  return ExitCode::done;
}

}  // namespace

void define_generate(app::CommandLine& line) {
  auto o = std::make_shared<GenerateCommandOptions>();
  auto& v = line.subcommand(
      "generate",
      "Make climate snapshots with true masks of cyclones and rivers, as HDF5 like the public CAM5 data; "
      "parallel over ranks and threads",
      [o](app::Launch& launch) { return generate(*o, launch); });
  auto& g = o->make;
  g.snapshots = {100, 10, 10};
  v.option_without_default("--out", o->out,
                           "Folder that gets train/, validation/, test/ and stats.h5; complete files in it are kept",
                           "DIR");
  v.option("--train", g.snapshots[0], "Training snapshots", "N").non_negative();
  v.option("--validation", g.snapshots[1], "Validation snapshots", "N").non_negative();
  v.option("--test", g.snapshots[2], "Test snapshots", "N").non_negative();
  v.option("--height", g.grid.rows, "Latitudes, from pole to pole", "POINTS").positive();
  v.option("--width", g.grid.columns, "Longitudes, around the Earth", "POINTS").positive();
  v.option("--cyclones", g.rates.cyclones, "Tropical cyclones in a snapshot, on average", "N").non_negative();
  v.option("--rivers", g.rates.rivers, "Atmospheric rivers in a snapshot, on average", "N").non_negative();
  v.option("--noise", g.noise, "White noise, in standard deviations of each channel", "SIGMA").non_negative();
  v.option("--seed", g.seed, "Snapshot i of a split depends only on seed, split, i and the options above", "N");
  v.flag("--overwrite", g.overwrite,
         "Replace snapshots that were made with other options; without --overwrite they are refused");
}

}  // namespace keelson::climate
