#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/loader_options.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/hdf5/read_cost.hpp"

namespace keelson::bench {

/// Which data to read, and how.
struct InputOptions {
  std::string data;
  bool is_table = false;  ///< the data are a table, not universes
  std::string array;      ///< the data are samples in the array of this name; empty: they are not
  std::int64_t size = 0, batch = 1;
  int epochs = 2;
  LoaderThreads loader = app::undecided_threads;
  std::vector<int> channels;
  bool augment = false, shuffle = true, codes = false;
  double accelerator_ms = 0;  ///< that an emulated accelerator computes with each sample; 0: samples are only read
};

/// One rank in one epoch.
struct RankFeed {
  double samples = 0, seconds = 0;
  double samples_per_second() const { return seconds > 0 ? samples / seconds : 0; }
};

/// All ranks in one epoch.
struct Epoch {
  std::vector<RankFeed> ranks;  ///< in rank order
  double seconds = 0;           ///< until the last rank had finished
  double samples = 0;           ///< of all ranks
  /// The part of the time in which the emulated accelerators, one for each rank, compute: samples x time of a sample /
  /// (ranks x seconds). MLPerf Storage's accelerator utilisation (AU).
  double utilisation = 0;
};

/// The results.
struct InputResult {
  InputOptions options;
  std::string machine;  ///< Launch::machine
  int ranks = 1;
  std::string data;
  double open_seconds = 0;                                   ///< time on the slowest rank
  std::optional<cosmoflow::UniverseDataset::Memory> memory;  ///< of universes: of rank 0 and its node
  std::optional<std::int64_t> table_bytes;  ///< of a table: bytes of its files, all parsed while opening
  std::optional<ReadCost> read_cost;        ///< of HDF5
  double sample_megabytes = 0;              ///< in the form that the device gets
  std::vector<Epoch> epochs;
  LoaderStatistics stages;  ///< of rank 0, over all epochs
};

/// Reads and decodes data as training does, without training. Throws InputError for data that cannot be read in
/// this way. Collective.
InputResult measure_input(const InputOptions& options, const app::Launch& launch);

nlohmann::json input_json(const InputResult& r);  ///< as `keelson-bench input --json` prints it

}  // namespace keelson::bench
