#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "apps/climate/weather/snapshot.hpp"
#include "apps/climate/weather/statistics.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::climate {

/// The parts of a data set, which are also folders.
inline constexpr std::array<const char*, 3> kSplits{"train", "validation", "test"};

struct GenerateOptions {
  std::filesystem::path directory;          ///< will contain the folders of kSplits, and stats.h5
  std::array<std::int64_t, 3> snapshots{};  ///< of each split
  Grid grid;
  Rates rates;
  double noise = 0.001;  ///< in units of each channel's standard deviation
  std::uint64_t seed = 1;
  bool overwrite = false;  ///< true: replace snapshots that were made with other options; false: refuse them
};

/// Throws InputError for options that cannot work.
void check(const GenerateOptions& options);

/// The key of snapshot number `index` of a split. A snapshot depends only on its key, grid, rates and noise.
SnapshotKey key_of(std::uint64_t seed, int split, std::int64_t index);

/// Makes a data set of labelled snapshots in the layout of the public CAM5 data (docs/file-formats.md): one HDF5 file
/// for each snapshot, written atomically. Complete files of the same options are kept. All ranks of `world` call each
/// function, in this order. Rank r makes every size-th file, beginning with file r of a split.
class Generator {
 public:
  Generator(const GenerateOptions& options, Communicator& world, int threads);

  /// Makes the folders and finds the files that exist. Throws InputError, on all ranks, if the folders hold anything
  /// other than this data set, or if the disk has no room for the missing files.
  void prepare();
  /// Makes this rank's missing snapshots. `progress(done, total)` is called after each; if it throws, complete files
  /// stay.
  void make(const std::function<void(std::int64_t done, std::int64_t total)>& progress);
  /// Writes stats.h5 about the training snapshots, if there are any, and returns what is in it.
  Statistics write_statistics();

  std::int64_t written() const { return written_; }  ///< snapshots of this rank
  std::int64_t found() const { return found_; }      ///< snapshots of this rank that were complete before

 private:
  struct File {
    int split;
    std::int64_t index;
  };
  std::filesystem::path path(const File& file) const;
  std::string configuration(const File& file) const;
  void check_statistics() const;
  void make_folders();
  void check_others(int split);
  void survey();
  bool is_complete(const File& file);
  void check_space() const;
  void write(const File& file, const Snapshot& snapshot) const;
  void count(const File& file, const ChannelSums& sums, const std::array<std::int64_t, kClasses>& pixels);

  GenerateOptions options_;
  Communicator& world_;
  int threads_;
  std::vector<File> missing_;
  StatisticsSums training_;
  std::array<std::int64_t, 3> present_{};  ///< number of files of each split that existed, with any content
  std::int64_t written_ = 0, found_ = 0;
};

}  // namespace keelson::climate
