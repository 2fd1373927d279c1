#include <fmt/format.h>

#include "apps/common/made_sets.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/minerva/data/event_files.hpp"
#include "apps/minerva/subcommands.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::minerva {
namespace {

struct GenerateOptions {
  std::string out, images = "cropped", channels = "energy+time", water = "filled";
  std::int64_t train = 20'000, validation = 2'000, test = 5'000;
  std::int64_t events_per_file = 1'000;  // files do not depend on the number of ranks
  std::uint64_t seed = 1;
};

ExitCode generate(const GenerateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets train/, validation/ and test/");
  const EventFileOptions f{.size = o.images == "full" ? ImageSize::full : ImageSize::cropped,
                           .channels = o.channels == "energy" ? 1 : 2,
                           .water = o.water == "filled",
                           .seed = o.seed};
  const auto files = app::make_sets(o.out, {{"train", o.train}, {"validation", o.validation}, {"test", o.test}},
                                    o.events_per_file, world, [&](const app::MadeFile& file) {
                                      write_events(file.folder / fmt::format("events-{:06}.h5", file.number), f,
                                                   file.set, file.begin, file.end);
                                    });
  if (world.rank() == 0)
    fmt::print("{}: {} in {}\n", o.out, counted(o.train + o.validation + o.test, "event"), counted(files, "file"));
  return ExitCode::done;
}

}  // namespace

void define_generate(app::CommandLine& line) {
  auto o = std::make_shared<GenerateOptions>();
  auto& v = line.subcommand("generate",
                            "Make simulated neutrino interactions, as HDF5 in the experiment's layout; parallel over "
                            "ranks",
                            [o](app::Launch& launch) { return generate(*o, launch); });
  v.option_without_default("--out", o->out, "Folder that gets train/, validation/ and test/", "DIR")
      .differs_between_ranks();
  v.option("--train", o->train, "Training events", "N").non_negative();
  v.option("--validation", o->validation, "Validation events", "N").non_negative();
  v.option("--test", o->test, "Test events", "N").non_negative();
  v.option("--images", o->images,
           "Planes of the views x, u and v: cropped 50, 25 and 25, the targets and what follows; full 94, 47 and 47")
      .one_of({"cropped", "full"});
  v.option("--channels", o->channels, "Channels of the images").one_of({"energy", "energy+time"});
  v.option("--water", o->water, "The water tank between the targets").one_of({"filled", "empty"});
  v.option("--events-per-file", o->events_per_file, "Events in a file", "N").positive();
  v.option("--seed", o->seed, "Event i of a set depends only on seed, set and i", "N");
}

}  // namespace keelson::minerva
