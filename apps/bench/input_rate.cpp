#include "apps/bench/input_rate.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/loader.hpp"
#include "engine/data/tables/table_dataset.hpp"

namespace keelson::bench {
namespace {

/// The training part of --data: the folder train/ in it, as for the subcommand `train`; else --data itself (a file, a
/// folder or a pattern).
std::string training_part(const std::string& data) {
  const auto train = std::filesystem::path(data) / "train";
  return std::filesystem::is_directory(train) ? train.string() : data;
}

/// Waits as a host does for an accelerator that computes for so many seconds: asleep, but for the last moment, since a
/// sleeping thread wakes late.
void wait_for_accelerator(double seconds) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds late{200};
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(end - late);
  while (clock::now() < end) {
  }
}

Epoch run_epoch(Loader& loader, int number, double accelerator_seconds, Communicator& world) {
  using clock = std::chrono::steady_clock;
  world.barrier();
  const auto start = clock::now();
  loader.start_epoch(number);
  RankFeed mine;
  while (const Batch* batch = loader.next()) {
    const auto samples = static_cast<double>(batch->count);
    mine.samples += samples;
    if (accelerator_seconds > 0) wait_for_accelerator(samples * accelerator_seconds);
  }
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
  epoch.utilisation = epoch.samples * accelerator_seconds / (epoch.seconds * world.size());
  return epoch;
}

}  // namespace

namespace {

/// Opens the data, and tells about them in `result`.
std::unique_ptr<const Dataset> open_data(const InputOptions& o, Communicator& world, InputResult& result) {
  const std::string path = training_part(o.data);
  if (!o.is_table && o.array.empty()) {
    auto data = std::make_unique<const cosmoflow::UniverseDataset>(
        path, cosmoflow::UniverseOptions{.size = o.size, .channels = o.channels}, &world);
    result.memory = data->memory();
    return data;
  }
  if ((o.is_table && !o.array.empty()) || o.size != 0 || !o.channels.empty() || o.augment)
    refuse("--table and --array: expected one of them, without --size, --channels and --augment of universes");
  if (!o.is_table)
    return std::make_unique<const ArrayFileDataset>(path, ArrayFileOptions{.x = o.array, .y = ""}, &world);
  result.table_bytes = 0;
  for (const auto& file : find_files(path, table_forms()))
    *result.table_bytes += static_cast<std::int64_t>(std::filesystem::file_size(file));
  return std::make_unique<const TableDataset>(path, TableOptions{}, &world);
}

}  // namespace

InputResult measure_input(const InputOptions& o, const app::Launch& launch) {
  if (o.data.empty()) refuse("--data is missing; expected a folder, file or pattern");
  auto& world = launch.world;
  InputResult result{.options = o, .machine = launch.machine, .ranks = world.size()};
  const auto start = std::chrono::steady_clock::now();
  const auto opened = open_data(o, world, result);
  const Dataset& data = *opened;
  double open_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  world.allreduce(&open_seconds, 1, Reduction::max);
  LoaderOptions options;
  options.batch = o.batch;
  if (o.batch > data.size()) refuse("--batch {} is more than the data have ({})", o.batch, data.describe());
  options.rank = world.rank();
  options.ranks = world.size();
  options.shuffle = o.shuffle;
  if (o.augment) options.decoding.transform = std::make_shared<cosmoflow::RandomCubeSymmetry>();
  options.threads = app::decide(o.loader, launch);
  options.decoding.by_device = o.codes;
  Loader loader(data, options);

  if (o.codes && !loader.encoding())
    refuse("--codes: {} holds no counts of 16 bits (int16, uint16): leave it out", data.describe());
  result.data = data.describe();
  result.open_seconds = open_seconds;
  result.read_cost = data.read_cost();
  for (std::size_t f = 0; f < data.fields().size(); ++f)
    result.sample_megabytes += static_cast<double>(loader.sample_bytes(f)) * 1e-6;
  for (int e = 0; e < o.epochs; ++e) result.epochs.push_back(run_epoch(loader, e, o.accelerator_ms * 1e-3, world));
  result.stages = loader.statistics();
  return result;
}

nlohmann::json input_json(const InputResult& r) {
  const auto& o = r.options;
  const auto stage = [](const LoaderStatistics::Stage& s) {
    return nlohmann::json{{"threads", s.threads},
                          {"busy_seconds", s.busy},
                          {"starved_seconds", s.starved},
                          {"blocked_seconds", s.blocked},
                          {"queued_samples", s.queued}};
  };
  nlohmann::json j{{"data", r.data},
                   {"open_seconds", r.open_seconds},
                   {"ranks", r.ranks},
                   {"machine", r.machine},
                   {"batch", o.batch},
                   {"loader_threads", r.stages.decoding.threads},
                   {"reader_threads", r.stages.reading.threads},
                   {"prefetch", r.stages.prefetch},
                   {"loader_bytes", r.stages.memory},
                   {"stages", {{"reading", stage(r.stages.reading)}, {"decoding", stage(r.stages.decoding)}}},
                   {"waits",
                    {{"reading", r.stages.waits.reading},
                     {"decoding", r.stages.waits.decoding},
                     {"received", r.stages.waits.ranks}}},
                   {"codes", o.codes},
                   {"accelerator_ms", o.accelerator_ms},
                   {"megabytes_per_sample", r.sample_megabytes},
                   {"epochs", nlohmann::json::array()}};
  if (r.memory) {
    j["rank_bytes"] = r.memory->rank;
    j["shared_bytes"] = r.memory->shared;
  }
  if (r.table_bytes) j["table_bytes"] = *r.table_bytes;
  if (r.read_cost) {
    j["read_amplification"] = r.read_cost->amplification();
    j["chunk"] = r.read_cost->array.chunk;
    j["chunks_per_sample"] = r.read_cost->chunks_of_sample;
  }
  const auto rate = [&](double samples, double seconds) {
    return nlohmann::json{{"samples", static_cast<std::int64_t>(samples)},
                          {"seconds", seconds},
                          {"samples_per_second", samples / seconds},
                          {"megabytes_per_second", samples * r.sample_megabytes / seconds}};
  };
  for (const auto& e : r.epochs) {
    auto all = rate(e.samples, e.seconds);
    if (o.accelerator_ms > 0) all["utilisation"] = e.utilisation;
    for (const auto& rank : e.ranks) all["ranks"].push_back(rate(rank.samples, rank.seconds));
    j["epochs"].push_back(std::move(all));
  }
  return j;
}

}  // namespace keelson::bench
