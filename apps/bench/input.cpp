#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/bench/input_rate.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"

namespace keelson::bench {
namespace {

struct InputSubcommand {
  InputOptions input;
  bool json = false;
};

/// A line for each stage of rank 0: what its threads did, and how long steps waited for it.
void print_stages(const InputResult& r) {
  double all = 0;
  for (const auto& e : r.epochs) all += e.seconds;
  fmt::print("{:>16} {:>8} {:>8} {:>8} {:>8} {:>16} {:>16}\n", "stage (rank 0)", "threads", "busy", "starved",
             "blocked", "samples queued", "steps waited for");
  const auto line = [&](const char* name, const LoaderStatistics::Stage& s, double waited) {
    if (s.threads == 0) return;
    const double seconds = s.busy + s.starved + s.blocked;
    const auto share = [&](double part, double of) { return of > 0 ? 100 * part / of : 0; };
    fmt::print("{:>16} {:>8} {:>6.1f} % {:>6.1f} % {:>6.1f} % {:>16.1f} {:>14.1f} %\n", name, s.threads,
               share(s.busy, seconds), share(s.starved, seconds), share(s.blocked, seconds), s.queued,
               share(waited, all));
  };
  line("reading", r.stages.reading, r.stages.waits.reading);
  line("decoding", r.stages.decoding, r.stages.waits.decoding);
}

void print_text(const InputResult& r) {
  const auto& o = r.options;
  fmt::print("{}\n{}; {} batches of {} ahead, {:.1f} MB for samples a rank\n", r.data, r.machine, r.stages.prefetch,
             o.batch, static_cast<double>(r.stages.memory) * 1e-6);
  fmt::print("opened in {:.3f} s", r.open_seconds);
  if (r.memory)
    fmt::print("; the facts about the files take {:.3f} MB per node", static_cast<double>(r.memory->shared) * 1e-6);
  if (r.table_bytes)
    fmt::print(": {:.3f} MB of files, {:.1f} MB/s", static_cast<double>(*r.table_bytes) * 1e-6,
               static_cast<double>(*r.table_bytes) * 1e-6 / r.open_seconds);
  fmt::print("\n");
  if (r.read_cost) {
    const auto& chunk = r.read_cost->array.chunk;
    fmt::print("read amplification {:.2f}: bytes read from the file, decompressed, for each byte of a sample ({})\n",
               r.read_cost->amplification(), chunk.empty() ? "contiguous" : "chunks of " + hdf5::to_string(chunk));
    if (const auto advice = advice_on(*r.read_cost, "keelson-cosmoflow"); !advice.empty())
      fmt::print("note: {}\n", advice);
  }
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
  print_stages(r);
  if (o.accelerator_ms == 0) return;
  fmt::print("utilisation of emulated accelerators of {} ms a sample, one for each rank:", o.accelerator_ms);
  for (std::size_t e = 0; e < r.epochs.size(); ++e)
    fmt::print("{} {:.3f} in epoch {}", e == 0 ? "" : ",", r.epochs[e].utilisation, e + 1);
  fmt::print("\n");
}

ExitCode run_input(const InputSubcommand& o, app::Launch& launch) {
  const auto result = measure_input(o.input, launch);
  if (launch.world.rank() != 0) return ExitCode::done;
  if (o.json)
    fmt::print("{}\n", input_json(result).dump());
  else
    print_text(result);
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_input(app::CommandLine& line) {
  auto o = std::make_shared<InputSubcommand>();
  auto& v =
      line.subcommand("input", "Measure how fast samples are read and decoded, as in training but without the training",
                      [o](app::Launch& launch) { return run_input(*o, launch); });
  v.option_without_default("--data", o->input.data,
                           "Universes (or what --table and --array say): a folder (with train/ in it, as for "
                           "`keelson-cosmoflow train`, or not), a file or a pattern",
                           "DIR")
      .differs_between_ranks();
  v.flag("--table", o->input.is_table,
         "The data are a table in CSV or Parquet: its last column is the target, and all columns are numbers");
  v.option_without_default("--array", o->input.array,
                           "The data are samples in the array of this name, in HDF5, NetCDF or NumPy files; its first "
                           "dimension counts the samples",
                           "NAME");
  v.option("--epochs", o->input.epochs, "Passes over the data; in the first, files may not be in the page cache yet",
           "N")
      .positive();
  v.option("--batch", o->input.batch, "Samples per rank and step", "SAMPLES").positive();
  app::declare_threads(o->input.loader, v);
  app::declare_prefetch(o->input.loader, v);
  v.option("--size", o->input.size, "Edge of the cubic samples; 0: as stored", "CELLS").non_negative();
  v.option_without_default("--channels", o->input.channels, "Stored channels to use, counted from 0; default: all",
                           "N,...")
      .comma_separated()
      .non_negative();
  v.flag("--shuffle", o->input.shuffle, "Use another order of samples in each epoch");
  v.flag("--augment", o->input.augment, "Apply one of the 48 symmetries of the cube, at random, to each sample");
  v.flag("--codes", o->input.codes, "Do not decode counts of 16 bits (on a GPU, the device decodes them)");
  v.option(
       "--accelerator-ms", o->input.accelerator_ms,
       "Emulate an accelerator on each rank that computes so long with each sample, and print the part of the time in "
       "which it computes, as MLPerf Storage does; 0: read samples as fast as possible",
       "MS")
      .between(0, 1e6);
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
