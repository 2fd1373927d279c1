#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/climate/weather/channels.hpp"
#include "engine/data/hdf5.hpp"
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

/// An HDF5 file with one snapshot, in the layouts of the public CAM5 data (docs/file-formats.md): `climate/data` as
/// (H, W, C) or (C, H, W); if it does not have all 16 channels, `climate/channels` lists those that it has. Labels are
/// numbers of any type in `climate/labels_0` and `climate/labels_1` (H, W), or in `climate/labels` (maps, H, W) or (H,
/// W).
class SnapshotFile {
 public:
  /// Throws InputError for a file that holds no snapshot. `folder`: as in hdf5::File::open().
  explicit SnapshotFile(const std::string& path, const std::string& folder = "");

  /// The path as given.
  const std::string& path() const { return file_.path(); }
  /// How the channels are stored.
  const SnapshotLayout& layout() const { return layout_; }
  /// The array of the channels in the file.
  const hdf5::DatasetInfo& data() const { return data_; }
  /// Whether the file holds this map of labels (0 or 1).
  bool has_labels(int map) const { return find_labels(map).has_value(); }

  /// The values to make of each point: value k is (stored - shift[k]) * scale[k], of the channel at positions[k].
  struct Values {
    std::vector<std::int64_t> positions;  ///< positions in SnapshotLayout::channels
    std::vector<float> shift;             ///< one for each value
    std::vector<float> scale;             ///< one for each value
  };
  /// Reads these rows of the snapshot, and writes (rows, columns, positions). Throws InputError, naming the place, for
  /// numbers that are not finite.
  void read_data(const Values& values, const Rows& rows, float* dst) const;
  /// Reads these rows of this map, and writes the classes (rows, columns). Throws InputError, naming the place, for
  /// other numbers than 0, 1 and 2, and for a map that the file lacks.
  void read_labels(int map, const Rows& rows, std::int32_t* dst) const;

 private:
  struct Labels {
    hdf5::DatasetInfo info;
    std::int64_t map = -1;  ///< index on the first axis; -1: there is no such axis
  };
  struct Block;
  std::optional<Labels> find_labels(int map) const;
  void decode(const Block& block, const Values& values, float* dst) const;
  template <class Read>
  void read_blocks(const Values& values, const Rows& wanted_rows, const Read& read, float* dst) const;
  [[noreturn]] void refuse_value(double value, std::int64_t row, std::int64_t column, std::int64_t position) const;

  hdf5::File file_;
  SnapshotLayout layout_;
  hdf5::DatasetInfo data_;
};

}  // namespace keelson::climate
