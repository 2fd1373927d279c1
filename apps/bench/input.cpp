#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/bench/verbs.hpp"
#include "apps/common/loader_options.hpp"
#include "apps/common/verb.hpp"
#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/loader.hpp"

namespace keelson::bench {
namespace {

struct InputOptions {
  std::string data;
  std::int64_t size = 0, batch = 1;
  int epochs = 2;
  app::LoaderThreads loader;
  std::vector<int> channels;
  bool augment = false, shuffle = true, codes = false, json = false;
};

/// One rank in one epoch.
struct RankFeed {
  double samples = 0, seconds = 0;
  double samples_per_second() const { return seconds > 0 ? samples / seconds : 0; }
};

struct Epoch {
  std::vector<RankFeed> ranks;
  double seconds = 0;  ///< until the last rank was done
  double samples = 0;
};

/// `train` takes a folder with train/ in it; a file, a folder or a pattern will do as well.
std::string training_part(const std::string& data) {
  const auto train = std::filesystem::path(data) / "train";
  return std::filesystem::is_directory(train) ? train.string() : data;
}

Epoch run_epoch(Loader& loader, int number, Communicator& world) {
  using clock = std::chrono::steady_clock;
  world.barrier();
  const auto start = clock::now();
  loader.start_epoch(number);
  RankFeed mine;
  while (const Batch* batch = loader.next()) mine.samples += static_cast<double>(batch->count);
  mine.seconds = std::chrono::duration<double>(clock::now() - start).count();

  const auto ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  std::vector<double> all(2 * ranks, 0.0);
  all[2 * rank] = mine.samples;
  all[2 * rank + 1] = mine.seconds;
  world.allreduce(all.data(), all.size(), Reduction::sum);
  Epoch epoch;
  for (std::size_t r = 0; r < ranks; ++r) {
    epoch.ranks.push_back({all[2 * r], all[2 * r + 1]});
    epoch.samples += epoch.ranks[r].samples;
    epoch.seconds = std::max(epoch.seconds, epoch.ranks[r].seconds);
  }
  return epoch;
}

struct InputResult {
  const InputOptions& options;
  const app::Job& job;
  app::LoaderThreads threads;
  std::string data;
  double open_seconds = 0;                    ///< of the slowest rank
  cosmoflow::UniverseDataset::Memory memory;  ///< of rank 0 and its node
  double sample_megabytes = 0;                ///< as handed to the device
  std::vector<Epoch> epochs;
};

void print_text(const InputResult& r) {
  const auto& o = r.options;
  fmt::print("{}\n{}; {} decoding thread{} a rank, {} batches of {} ahead\n", r.data, r.job.machine, r.threads.threads,
             r.threads.threads == 1 ? "" : "s", r.threads.prefetch, o.batch);
  fmt::print("opened in {:.3f} s; what is known of the files takes {:.3f} MB per node\n", r.open_seconds,
             static_cast<double>(r.memory.shared) * 1e-6);
  fmt::print("{:>6} {:>8} {:>9} {:>10} {:>10} {:>10}   {}\n", "epoch", "rank", "samples", "s", "samples/s", "MB/s",
             o.codes ? "(codes, for the device to decode)" : "(decoded, as the network takes them)");
  const auto line = [&](std::size_t epoch, const std::string& rank, double samples, double seconds) {
    fmt::print("{:>6} {:>8} {:>9} {:>10.3f} {:>10.2f} {:>10.1f}\n", epoch + 1, rank, samples, seconds,
               samples / seconds, samples * r.sample_megabytes / seconds);
  };
  for (std::size_t e = 0; e < r.epochs.size(); ++e) {
    const auto& ranks = r.epochs[e].ranks;
    constexpr std::size_t most_lines = 16;
    if (ranks.size() > 1 && ranks.size() <= most_lines)
      for (std::size_t i = 0; i < ranks.size(); ++i) line(e, std::to_string(i), ranks[i].samples, ranks[i].seconds);
    if (ranks.size() > most_lines) {
      const auto slow =
          std::max_element(ranks.begin(), ranks.end(), [](auto& a, auto& b) { return a.seconds < b.seconds; });
      line(e, fmt::format("{} slow", slow - ranks.begin()), slow->samples, slow->seconds);
    }
    line(e, "all", r.epochs[e].samples, r.epochs[e].seconds);
  }
}

nlohmann::json json_of(const InputResult& r) {
  const auto& o = r.options;
  nlohmann::json j{{"data", r.data},
                   {"open_seconds", r.open_seconds},
                   {"rank_bytes", r.memory.rank},
                   {"shared_bytes", r.memory.shared},
                   {"ranks", r.job.world.size()},
                   {"machine", r.job.machine},
                   {"batch", o.batch},
                   {"loader_threads", r.threads.threads},
                   {"prefetch", r.threads.prefetch},
                   {"codes", o.codes},
                   {"megabytes_per_sample", r.sample_megabytes},
                   {"epochs", nlohmann::json::array()}};
  const auto rate = [&](double samples, double seconds) {
    return nlohmann::json{{"samples", static_cast<std::int64_t>(samples)},
                          {"seconds", seconds},
                          {"samples_per_second", samples / seconds},
                          {"megabytes_per_second", samples * r.sample_megabytes / seconds}};
  };
  for (const auto& e : r.epochs) {
    auto all = rate(e.samples, e.seconds);
    for (const auto& rank : e.ranks) all["ranks"].push_back(rate(rank.samples, rank.seconds));
    j["epochs"].push_back(std::move(all));
  }
  return j;
}

ExitCode run_input(const InputOptions& o, app::Job& job) {
  if (o.data.empty()) refuse("--data is missing; expected a folder, file or pattern of HDF5 universes");
  auto& world = job.world;
  cosmoflow::UniverseOptions universe;
  universe.size = o.size;
  universe.channels = o.channels;
  const auto start = std::chrono::steady_clock::now();
  const cosmoflow::UniverseDataset data(training_part(o.data), universe, &world);
  double open_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  world.allreduce(&open_seconds, 1, Reduction::max);
  LoaderOptions options;
  options.batch = o.batch;
  if (o.batch > data.size()) refuse("--batch {} is more than the data have ({})", o.batch, data.describe());
  options.rank = world.rank();
  options.ranks = world.size();
  options.shuffle = o.shuffle;
  if (o.augment) options.transform = std::make_shared<cosmoflow::RandomCubeSymmetry>();
  const auto threads = app::decide(o.loader, job, o.batch);
  options.threads = threads.threads;
  options.prefetch = threads.prefetch;
  options.codes = o.codes;
  options.cpus = job.placement.cpus;
  Loader loader(data, options);

  if (o.codes && !loader.coded())
    refuse("--codes: {} holds no counts of 16 bits (int16, uint16): leave it out", data.describe());
  InputResult result{o, job, threads, data.describe(), open_seconds, data.memory(), 0, {}};
  for (std::size_t f = 0; f < data.fields().size(); ++f)
    result.sample_megabytes += static_cast<double>(loader.sample_bytes(f)) * 1e-6;
  for (int e = 0; e < o.epochs; ++e) result.epochs.push_back(run_epoch(loader, e, world));
  if (world.rank() != 0) return ExitCode::done;
  if (o.json)
    fmt::print("{}\n", json_of(result).dump());
  else
    print_text(result);
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_input(app::CommandLine& line) {
  auto o = std::make_shared<InputOptions>();
  auto& v = line.verb("input", "How fast samples can be read and decoded, as in training but without it",
                      [o](app::Job& job) { return run_input(*o, job); });
  v.option_without_default("--data", o->data,
                           "Universes in HDF5: a folder (with train/ in it, as for `keelson-cosmoflow train`, or "
                           "not), a file or a pattern",
                           "DIR")
      .differs_between_ranks();
  v.option("--epochs", o->epochs, "Passes over the data; the first may find the files outside the page cache", "N")
      .positive();
  v.option("--batch", o->batch, "Samples per rank and step", "SAMPLES").positive();
  app::declare_threads(o->loader, v);
  app::declare_prefetch(o->loader, v);
  v.option("--size", o->size, "Edge of the cubic samples; 0: as stored", "CELLS").non_negative();
  v.option_without_default("--channels", o->channels, "Stored channels to use, counted from 0; default: all", "N,...")
      .comma_separated()
      .non_negative();
  v.flag("--shuffle", o->shuffle, "Another sample order in each epoch");
  v.flag("--augment", o->augment, "One of the 48 symmetries of the cube at random for each sample");
  v.flag("--codes", o->codes, "Leave counts of 16 bits as they are, as for a GPU, which decodes them");
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
