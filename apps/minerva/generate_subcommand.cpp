#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/common/progress.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/minerva/data/event_files.hpp"
#include "apps/minerva/subcommands.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::minerva {
namespace {

namespace fs = std::filesystem;

struct GenerateOptions {
  std::string out, images = "cropped", channels = "energy+time", water = "filled";
  std::int64_t train = 20'000, validation = 2'000, test = 5'000;
  std::int64_t events_per_file = 1'000;  // files do not depend on the number of ranks
  std::uint64_t seed = 1;
};

ExitCode generate(const GenerateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets train/, validation/ and test/");
  struct File {
    std::string set;
    std::int64_t begin, end;
  };
  std::vector<File> files;
  const std::pair<const char*, std::int64_t> sets[] = {
      {"train", o.train}, {"validation", o.validation}, {"test", o.test}};
  for (const auto& [set, events] : sets)
    for (std::int64_t at = 0; at < events; at += o.events_per_file)
      files.push_back({set, at, std::min(at + o.events_per_file, events)});
  const EventFileOptions f{.size = o.images == "full" ? ImageSize::full : ImageSize::cropped,
                           .channels = o.channels == "energy" ? 1 : 2,
                           .water = o.water == "filled",
                           .seed = o.seed};
  app::Progress progress("file");
  on_each_rank(&world, [&] {
    for (std::size_t i = static_cast<std::size_t>(world.rank()); i < files.size();
         i += static_cast<std::size_t>(world.size())) {
      const auto& [set, begin, end] = files[i];
      const fs::path folder = fs::path(o.out) / set;
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) refuse("--out {}: cannot be made ({}); choose a folder that can be written", o.out, error.message());
      write_events(folder / fmt::format("events-{:06}.h5", begin / o.events_per_file), f, set, begin, end);
      if (world.rank() == 0) progress.show(static_cast<std::int64_t>(i) + 1, std::ssize(files));
    }
  });
  if (world.rank() == 0)
    fmt::print("{}: {} in {}\n", o.out, counted(o.train + o.validation + o.test, "event"),
               counted(std::ssize(files), "file"));
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
