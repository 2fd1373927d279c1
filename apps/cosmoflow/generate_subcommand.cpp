#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/cosmoflow/universe/generate.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::cosmoflow {
namespace {

struct GenerateCommandOptions {
  universe::GenerateOptions make;
  std::string out, prior = "wide", layout = "samples";
  int order = 2;
  double box = 0;
};

/// Thrown between universes when the user or the batch system wants the program to end.
struct Interrupted {};

ExitCode generate(GenerateCommandOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets train/, validation/ and test/");
  auto& g = o.make;
  g.directory = o.out;
  g.prior = universe::prior_preset(o.prior);
  if (o.box > 0) g.prior.box_size = o.box;
  g.order =
      o.order == 1 ? universe::LagrangianParticles::Order::kZeldovich : universe::LagrangianParticles::Order::kSecond;
  g.layout = o.layout == "raw" ? universe::FileLayout::kRaw : universe::FileLayout::kSamples;
  g.rank = world.rank();
  g.ranks = world.size();
  universe::check(g);
  Interrupt::install();
  app::Progress progress("universe", world.size());
  universe::GenerateReport report;
  bool interrupted = false;
  try {
    report = universe::generate(g, [&](const universe::GenerateProgress& p) {
      if (world.rank() == 0) progress.show(p.done, p.total);
      if (Interrupt::requested()) throw Interrupted();
    });
  } catch (const Interrupted&) {
    interrupted = true;  // complete files stay; the same command makes the others
  }
  // One rank may need long for its last file while the others wait; a signal then ends the program at once.
  Interrupt::uninstall();
  std::int64_t counts[3] = {report.written, report.skipped, interrupted};
  world.allreduce(counts, 3, Reduction::sum);
  if (counts[2] > 0) {
    if (world.rank() == 0) fmt::print("interrupted; the same command makes the missing files\n");
    return ExitCode::interrupted;
  }
  if (world.rank() == 0)
    fmt::print("{}: {} of {}^3 cells made, {} were there already\n", o.out, counted(counts[0], "universe"), g.grid,
               counts[1]);
  return ExitCode::done;
}

}  // namespace

void define_generate(app::CommandLine& line) {
  auto o = std::make_shared<GenerateCommandOptions>();
  auto& v = line.subcommand(
      "generate",
      "Make universes by Lagrangian perturbation theory, as HDF5 like the public CosmoFlow data; parallel over ranks",
      [o](app::Launch& launch) { return generate(*o, launch); });
  auto& g = o->make;
  g.train = 1000;
  g.validation = g.test = 100;
  v.option_without_default("--out", o->out,
                           "Folder that gets train/, validation/ and test/; complete files in it are kept", "DIR")
      .differs_between_ranks();
  v.option("--train", g.train, "Training universes", "N").non_negative();
  v.option("--validation", g.validation, "Validation universes", "N").non_negative();
  v.option("--test", g.test, "Test universes", "N").non_negative();
  v.option("--prior", o->prior, "Ranges of the parameters: wide, or those of the public data")
      .one_of(universe::prior_presets());
  v.option("--size", g.grid, "Edge of a universe", "CELLS").positive();
  v.option("--box", o->box, "Edge of a universe; 0: the prior's", "MPC/H").non_negative();
  v.option("--particles", g.particles_per_cell_side, "Particles per cell along one side; the mean count is its cube",
           "N")
      .positive();
  v.option("--order", o->order, "Displacement: 1 Zel'dovich, 2 second order (2LPT)").between(1, 2);
  v.option("--layout", o->layout, "samples: x and y, as the prepared public data; raw: full and unitPar")
      .one_of({"samples", "raw"});
  v.option("--samples-per-file", g.samples_per_file, "For samples", "N").positive();
  v.option("--seed", g.seed, "Universe i of a split depends only on seed, split and i", "N");
}

}  // namespace keelson::cosmoflow
