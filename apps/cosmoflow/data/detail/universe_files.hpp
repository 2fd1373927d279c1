#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cosmoflow/data/detail/universe_content.hpp"
#include "engine/base/communicator.hpp"
#include "engine/data/file_list.hpp"
#include "engine/data/hdf5.hpp"
#include "engine/data/raw_file.hpp"
#include "engine/data/shared_bytes.hpp"

namespace keelson::cosmoflow::detail {

/// What is known of a file since the data set was opened.
struct FileFacts {
  std::int64_t bytes = 0;           ///< of the file
  std::int64_t end_row = 0;         ///< samples in this file and in those before
  std::int64_t volume_offset = -1;  ///< as volume_offset()
  std::uint64_t surroundings = 0;   ///< their hash, where there is a volume_offset
};

/// A file that is open for reading samples: by position in `raw` where the volume lies as in memory, else by `h5`.
struct OpenUniverse {
  std::optional<RawFile> raw;
  std::int64_t volume_offset = 0;  ///< in `raw`
  std::optional<hdf5::File> h5;
};

/// The files of a data set of universes. Rank 0 lists them (FileList), each rank opens and checks a share, and what was
/// found lies in SharedBytes: per file FileFacts, and per sample the targets. A rank's own memory does not grow with
/// the number of files.
class UniverseFiles {
 public:
  /// Opens on each rank the first file, a share of the files, and up to `sampled` files of other ranks' shares, to see
  /// that the rank sees the same data. Throws InputError on all ranks alike, naming the first file, in order of names,
  /// that does not fit the first one, holds targets that are not finite, or is another one on this rank; of several
  /// ranks also the rank. Collective.
  UniverseFiles(const std::string& path, Communicator* communicator);

  std::int64_t size() const { return list_.size(); }
  std::int64_t rows() const { return rows_; }  ///< samples, as stored
  const UniverseLayout& layout() const { return first_.layout; }
  const std::vector<UniverseParameter>& parameters() const { return first_.parameters; }
  std::string path(std::int64_t file) const { return list_.path(file); }
  const float* targets(std::int64_t row) const;  ///< one per column
  struct Place {
    std::int64_t file = 0, sample = 0;  ///< sample of the file
  };
  Place place_of(std::int64_t row) const;

  /// The file, from among the latest `kept_open` or opened anew; then it is compared with what was found when the data
  /// set was opened. Throws InputError for a file that has changed since. Any thread.
  std::shared_ptr<const OpenUniverse> open(std::int64_t file) const;
  void close(std::int64_t file) const;  ///< forgets an open file, one that could not be read

  std::uint64_t digest() const;                    ///< the same on all ranks, whatever their number
  std::int64_t rank_bytes() const;                 ///< memory of this rank alone
  std::int64_t shared_bytes() const;               ///< memory of the node, for all its ranks
  std::int64_t opened() const { return opened_; }  ///< files opened so far, by this rank

  static constexpr std::int64_t files_per_round = 1024, sampled = 16;
  static constexpr std::size_t kept_open = 16;

 private:
  struct Part {
    std::vector<FileFacts> facts;  ///< end_row counts from the part's first row
    std::vector<float> targets;
  };
  struct Checked {
    FileFacts facts;  ///< end_row: samples of the file
    std::vector<float> targets;
  };

  void check_all(Communicator* communicator);
  Part check_part(std::int64_t begin, std::int64_t end) const;
  Checked check(std::int64_t file) const;
  bool looks_like_first(const RawFile& file, std::int64_t bytes, Checked& checked) const;
  void read_first();
  void compare_some(int rank) const;
  FileFacts facts(std::int64_t file) const;
  std::shared_ptr<const OpenUniverse> open_anew(std::int64_t file) const;
  std::int64_t volume_bytes(std::int64_t samples) const;

  FileList list_;
  UniverseContent first_;
  /// Of the first file, while the others are checked: most are like it but for voxels and targets, which shows without
  /// HDF5. `targets_at`: where the targets lie in the bytes; -1: not there as in memory.
  Surroundings around_first_;
  std::int64_t first_bytes_ = 0, targets_at_ = -1;
  SharedBytes facts_, targets_;
  std::int64_t rows_ = 0;
  mutable std::atomic<std::int64_t> opened_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, std::shared_ptr<const OpenUniverse>>> open_;  ///< latest last
};

}  // namespace keelson::cosmoflow::detail
