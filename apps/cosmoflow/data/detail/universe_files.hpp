#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cosmoflow/data/detail/universe_content.hpp"
#include "apps/cosmoflow/data/detail/universe_file.hpp"
#include "engine/base/communicator.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/files/recent_files.hpp"
#include "engine/data/files/shared_bytes.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::cosmoflow::detail {

/// Facts about a file, found when the data set was opened.
struct FileFacts {
  std::int64_t bytes = 0;           ///< size of the file
  std::int64_t end_row = 0;         ///< samples in this file and in all files before it
  std::int64_t volume_offset = -1;  ///< as volume_offset()
  std::uint64_t surroundings = 0;   ///< hash of the surroundings, if there is a volume_offset
};

/// A file that is open for reading samples: by position in `raw` if the volume lies in the file as in memory, else by
/// `file`.
struct OpenUniverse {
  std::optional<RawFile> raw;
  std::int64_t volume_offset = 0;  ///< in `raw`
  std::unique_ptr<const UniverseFile> file;
};

/// The files of a data set of universes. Rank 0 lists them (FileList), and each rank opens and checks a share. The
/// results lie in SharedBytes: FileFacts per file, and the targets per sample. A rank's own memory does not grow with
/// the number of files.
class UniverseFiles {
 public:
  /// Each rank opens the first file, a share of the files, and up to `sampled` files of other ranks' shares, to check
  /// that all ranks see the same data. Throws InputError, the same on all ranks, if a file does not fit the first file,
  /// has targets that are not finite, or differs on another rank. The message names the first such file in order of
  /// names and, with several ranks, the rank. Up to `skip_broken` such files count as files without samples instead:
  /// broken(). `copies`: as in FileList. Collective.
  UniverseFiles(const std::string& path, std::int64_t skip_broken, std::shared_ptr<const FileCopies> copies,
                Communicator* communicator);

  std::int64_t size() const { return list_.size(); }
  std::int64_t rows() const { return rows_; }  ///< number of stored samples
  const UniverseLayout& layout() const { return first_.layout; }
  const hdf5::DatasetInfo& first_volume() const { return first_.volume; }  ///< of the first file
  const std::vector<UniverseParameter>& parameters() const { return first_.parameters; }
  const std::vector<double>& redshifts() const { return first_.redshifts; }  ///< as UniverseContent::redshifts
  std::string path(std::int64_t file) const { return list_.path(file); }
  /// The file that decides what all others must be: the first one that is not broken.
  std::string first_path() const { return path(first_file_); }
  const std::vector<std::string>& broken() const { return broken_; }  ///< why files count as empty, one text for each
  const float* targets(std::int64_t row) const;                       ///< one per column
  struct Location {
    std::int64_t file = 0, sample = 0;  ///< sample: number within the file
  };
  Location locate(std::int64_t row) const;

  /// An open file: one of the last `kept_open` files, or opened again and compared with the facts that were found when
  /// the data set was opened. Throws InputError if the file has changed since. May be called by any thread.
  std::shared_ptr<const OpenUniverse> open(std::int64_t file) const;
  void close(std::int64_t file) const {
    open_.close(file);
  }  ///< removes a file that could not be read from the open files

  std::uint64_t digest() const;                    ///< the same on all ranks, and for any number of ranks
  std::int64_t rank_bytes() const;                 ///< memory of this rank only
  std::int64_t shared_bytes() const;               ///< memory that all ranks of the node share
  std::int64_t opened() const { return opened_; }  ///< files opened so far, by this rank

  static constexpr std::int64_t files_per_round = 1024, sampled = 16;
  static constexpr std::size_t kept_open = 16;

 private:
  struct Part {
    std::vector<FileFacts> facts;  ///< end_row counts from the part's first row
    std::vector<float> targets;
    std::vector<std::string> broken;
  };
  struct Checked {
    FileFacts facts;  ///< end_row: number of samples in the file
    std::vector<float> targets;
    std::string broken;  ///< why the file counts as empty
  };

  void check_all(Communicator* communicator);
  Part check_part(std::int64_t begin, std::int64_t end) const;
  Checked check(std::int64_t file) const;
  bool looks_like_first(const RawFile& file, std::int64_t bytes, Checked& checked) const;
  void read_first(std::int64_t file);
  void compare_some(int rank) const;
  FileFacts facts(std::int64_t file) const;
  std::shared_ptr<const OpenUniverse> open_anew(std::int64_t file) const;
  std::int64_t volume_bytes(std::int64_t samples) const;

  FileList list_;
  const std::int64_t skip_broken_;
  std::vector<std::string> broken_;
  std::int64_t first_file_ = 0;
  UniverseContent first_;
  /// Of the first file, while the other files are checked: most files differ from it only in voxels and targets, which
  /// can be seen without HDF5. `targets_at_`: position of the targets in these bytes; -1: they do not lie there as in
  /// memory.
  Surroundings around_first_;
  std::int64_t first_bytes_ = 0, targets_at_ = -1;
  SharedBytes facts_, targets_;
  std::int64_t rows_ = 0;
  mutable std::atomic<std::int64_t> opened_ = 0;
  mutable RecentFiles<OpenUniverse> open_{kept_open};
};

}  // namespace keelson::cosmoflow::detail
