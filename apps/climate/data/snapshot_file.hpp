#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/climate/weather/channels.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/tensor/rows.hpp"

namespace keelson::climate {

/// How files hold the channels of a snapshot.
struct SnapshotLayout {
  std::int64_t rows = 0;      ///< latitudes
  std::int64_t columns = 0;   ///< longitudes
  bool channels_last = true;  ///< (rows, columns, channels); else (channels, rows, columns)
  std::vector<int> channels;  ///< the stored channels in this order, as values of enum Channel

  /// All rows of the snapshot.
  Rows all_rows() const { return {0, rows}; }
  /// Number of points.
  std::int64_t points() const { return rows * columns; }
  friend bool operator==(const SnapshotLayout&, const SnapshotLayout&) = default;
};

/// "(768, 1152, 16)".
std::string to_string(const SnapshotLayout& layout);
/// The names of channels, separated by commas.
std::string names_of(std::span<const int> channels);

/// A file with one or several snapshots, in one of these forms (docs/file-formats.md):
/// - `climate/data` as (H, W, C) or (C, H, W), the layouts of the public CAM5 data in HDF5; if the array does not have
///   all 16 channels, `climate/channels` lists those that it has;
/// - an array for each channel, (time, H, W) or (H, W), with the channel's name: history files of CAM5 in NetCDF;
/// - a .npy file (H, W, 17), whose last channel is the labels, or (H, W, 16).
///
/// Labels are numbers of any type: in `climate/labels_0` and `climate/labels_1` (H, W), or in `climate/labels` (maps,
/// H, W) or (H, W); beside arrays of channels, in `labels_0`, `labels_1`, `labels` or `LABELS`, of the channels' shape.
class SnapshotFile {
 public:
  /// Throws InputError for a file that holds no snapshot. `folder`: as in hdf5::File::open().
  explicit SnapshotFile(const std::string& path, const std::string& folder = "");

  /// The path as given.
  const std::string& path() const { return file_->path(); }
  /// Number of snapshots.
  std::int64_t size() const { return time_.value_or(1); }
  /// How the channels of a snapshot are stored.
  const SnapshotLayout& layout() const { return layout_; }
  /// The array of all channels, in HDF5; no value: the file has none.
  std::optional<hdf5::DatasetInfo> data() const { return one_for_each_ ? std::nullopt : data_[0].dataset; }
  /// Whether the file holds this map of labels (0 or 1).
  bool has_labels(int map) const { return find_labels(map).has_value(); }

  /// Where such labels would be, for messages.
  std::string labels_expected(int map) const;

  /// The values to make of each point: value k is (stored - shift[k]) * scale[k], of the channel at positions[k].
  struct Values {
    std::vector<std::int64_t> positions;  ///< positions in SnapshotLayout::channels
    std::vector<float> shift;             ///< one for each value
    std::vector<float> scale;             ///< one for each value
  };
  /// Reads these rows of a snapshot, and writes (rows, columns, positions). Throws InputError, naming the place, for
  /// numbers that are not finite.
  void read_data(const Values& values, std::int64_t snapshot, const Rows& rows, float* dst) const;
  /// Reads these rows of a map of a snapshot, and writes the classes (rows, columns). Throws InputError, naming the
  /// place, for other numbers than 0, 1 and 2, and for a map that the file lacks.
  void read_labels(int map, std::int64_t snapshot, const Rows& rows, std::int32_t* dst) const;

 private:
  struct Labels {
    ArrayInfo array;
    std::optional<std::int64_t> map;  ///< index on the first axis, if that counts maps
    bool is_channel = false;          ///< the last channel of the data
  };
  struct Block;
  void open_public();
  void open_numpy();
  void open_variables();
  std::optional<Labels> find_labels(int map) const;
  bool fits(Labels& found, int map, bool is_own) const;
  hdf5::Dims place(std::int64_t position, std::int64_t snapshot, std::int64_t row, std::int64_t column) const;
  Block read_block(const Values& values, std::int64_t snapshot, const Rows& rows, float* in_place) const;
  void decode(const Block& block, const Values& values, float* dst) const;
  [[noreturn]] void refuse_value(double value, const Block& block, std::int64_t row, std::int64_t column,
                                 std::int64_t position) const;

  std::shared_ptr<const ArrayFile> file_;
  SnapshotLayout layout_;
  bool one_for_each_ = false;         ///< each channel has an array of its own
  std::vector<ArrayInfo> data_;       ///< one array with all channels, or one for each
  std::int64_t stored_ = 0;           ///< channels of an array with all, among them perhaps the labels
  std::optional<std::int64_t> time_;  ///< extent of the arrays' first axis, if that counts snapshots
};

/// The forms of files that hold snapshots.
std::vector<FileForm> snapshot_forms();

}  // namespace keelson::climate
