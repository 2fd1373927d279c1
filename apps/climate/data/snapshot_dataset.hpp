#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/climate/data/channel_ranges.hpp"
#include "apps/climate/data/snapshot_file.hpp"
#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/stage/file_copies.hpp"

namespace keelson::climate {

struct SnapshotOptions {
  std::vector<int> channels;  ///< values of enum Channel, in this order; empty: all 16
  int labels = 0;             ///< number of the map of labels
  bool needs_labels = true;   ///< false: files without labels are accepted, too; read() refuses them
  std::int64_t multiple = 1;  ///< the network needs rows and columns that are multiples of this
  /// Files that may be left out because they cannot be opened, or do not fit the others.
  std::int64_t skip_broken = 0;
  std::shared_ptr<const FileCopies> copies = nullptr;  ///< of the files, near this rank; null: none
};

/// The files of snapshots that a path names, as find_files(), without files named stats.h5.
std::vector<std::string> find_snapshots(const std::string& path);

/// Climate snapshots, one or several in each file, in the forms that SnapshotFile reads. Fields: "x" (channels, H, W)
/// f32, written (H, W, channels), and "y" (H, W) s32, the class of each point.
///
/// Rank 0 lists the files, and each rank opens a share of them to check that they fit. A file is opened again when one
/// of its samples is read. Most data are read without HDF5's lock (ArrayFile).
class SnapshotDataset final : public Dataset {
 public:
  /// `path`: a file, a folder, or a pattern; a file named stats.h5 is left out. The samples are not normalised. Throws
  /// InputError on all ranks for files that do not fit the first file or the options. `world` null: one rank.
  /// Collective.
  SnapshotDataset(const std::string& path, const SnapshotOptions& options, Communicator* world = nullptr);
  /// The files of `opened`, with samples that normalise() has changed. Opens no files.
  SnapshotDataset(const SnapshotDataset& opened, const ChannelRanges& ranges, const std::string& source);
  ~SnapshotDataset() override;

  /// From now on samples are normalised by `ranges`. Called at most once, and not while samples are read. Throws
  /// InputError, naming `source`, if `ranges` has another number of channels.
  void normalise(const ChannelRanges& ranges, const std::string& source);

  std::int64_t size() const override;
  const std::vector<Field>& fields() const override;
  /// Throws InputError, naming file and place, for numbers that are not finite and labels outside 0..2.
  void read(std::int64_t index, void* const* dst) const override;
  /// Without a transform, reads these rows alone from the file.
  void read_sample(const SampleRequest& request, void* const* dst) const override;
  /// Reads only the field "x".
  void read_data(std::int64_t index, float* dst) const;
  /// Reads all 16 channels, in the order of their numbers and not normalised. The files must have them.
  void read_all_channels(std::int64_t index, float* dst) const;
  /// Reads only the field "y".
  void read_labels(std::int64_t index, std::int32_t* dst) const;
  /// Whether the file of a sample has the labels of the options. True for all samples if the options need labels.
  bool has_labels(std::int64_t index) const;
  std::string describe() const override;
  std::optional<ReadCost> read_cost() const override;
  std::uint64_t digest() const override;

  /// How the files hold their channels.
  const SnapshotLayout& layout() const;
  /// The chosen channels.
  const std::vector<int>& channels() const;
  /// The ranges of the chosen channels; empty: the samples are not normalised.
  const ChannelRanges& ranges() const;
  /// Why files were left out, one text for each.
  const std::vector<std::string>& broken_files() const;
  std::int64_t file_number_of(std::int64_t index) const override;
  /// The file of a sample, as a path.
  std::string file_of(std::int64_t index) const override;
  std::int64_t row_of(std::int64_t index) const override;
  /// The name of a sample below the folder, the same on all ranks: that of its file, "b/data-0000001.h5"; or of an HDF5
  /// file for the sample alone, if the file is not HDF5 ("b/a.h5" of b/a.npy) or has several ("b/a-0003.h5" of b/a.nc).
  std::string name_of(std::int64_t index) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::climate
