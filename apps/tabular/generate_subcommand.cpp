#include <fmt/format.h>

#include "apps/common/made_sets.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/tabular/collision/collision.hpp"
#include "apps/tabular/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::tabular {
namespace {

constexpr std::int64_t events_of_file = 10'000;  // so that the files do not depend on the number of ranks

struct GenerateOptions {
  std::string out;
  std::int64_t train = 50'000, validation = 5'000, test = 10'000;
  std::uint64_t seed = 1;
};

std::string table(std::uint64_t seed, const std::string& set, std::int64_t begin, std::int64_t end) {
  std::string text = "label";
  for (const auto& name : collision_feature_names()) text += "," + name;
  text += "\n";
  for (std::int64_t i = begin; i < end; ++i) {
    const Collision c = make_collision(seed, set, i);
    text += c.signal ? "1" : "0";
    for (const double f : c.features) fmt::format_to(std::back_inserter(text), ",{:.6g}", f);
    text += "\n";
  }
  return text;
}

ExitCode generate(const GenerateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (o.out.empty()) refuse("give --out: the folder that gets train/, validation/ and test/");
  const auto files = app::make_sets(o.out, {{"train", o.train}, {"validation", o.validation}, {"test", o.test}},
                                    events_of_file, world, [&](const app::MadeFile& file) {
                                      write_atomically(file.folder / fmt::format("events-{:06}.csv", file.number),
                                                       table(o.seed, file.set, file.begin, file.end));
                                    });
  if (world.rank() == 0)
    fmt::print("{}: {} in {}\n", o.out, counted(o.train + o.validation + o.test, "event"), counted(files, "file"));
  return ExitCode::done;
}

}  // namespace

void define_generate(app::CommandLine& line) {
  auto o = std::make_shared<GenerateOptions>();
  auto& v = line.subcommand("generate",
                            "Make tables of simulated particle collisions, signal and background, with the columns of "
                            "the HIGGS data; parallel over ranks",
                            [o](app::Launch& launch) { return generate(*o, launch); });
  v.option_without_default("--out", o->out, "Folder that gets train/, validation/ and test/", "DIR")
      .differs_between_ranks();
  v.option("--train", o->train, "Training events", "N").non_negative();
  v.option("--validation", o->validation, "Validation events", "N").non_negative();
  v.option("--test", o->test, "Test events", "N").non_negative();
  v.option("--seed", o->seed, "Event i of a set depends only on seed, set and i", "N");
}

}  // namespace keelson::tabular
