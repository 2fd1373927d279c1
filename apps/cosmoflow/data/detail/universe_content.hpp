#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::cosmoflow::detail {

/// The properties that all files of a data set have in common.
struct UniverseLayout {
  std::string volume, targets;  ///< names: x and y, or full and unitPar
  hdf5::Type type{};            ///< element type of the volume
  std::string type_name;
  bool many = false;          ///< several samples per file: first dimension of both
  bool channel_axis = false;  ///< the volume has a channel axis; else there is one channel
  std::int64_t edge = 0, channels = 1, columns = 0;

  hdf5::Dims volume_shape() const;  ///< shape of one sample, as stored
  std::int64_t volume_elements() const { return edge * edge * edge * channels; }
};

/// The content of one file.
struct UniverseContent {
  std::string path;
  UniverseLayout layout;
  hdf5::DatasetInfo volume, targets;
  std::vector<UniverseParameter> parameters;  ///< one per column
  std::vector<double> redshifts;              ///< one per channel, if the file names them
  std::int64_t samples = 1;
};

/// Sets the layout and the number of samples of a file, from its path and the facts about volume and targets. Throws
/// InputError for a file that is no universe.
void set_layout(UniverseContent& content);
/// Of an HDF5 file. Throws InputError for a file that is no universe.
UniverseContent inspect(const hdf5::File& file);
/// Throws InputError if `other` has another layout or other parameters than the first file.
void require_same(const UniverseContent& first, const UniverseContent& other);
/// Throws InputError for targets (samples, columns) of the file `path` that are NaN or infinite.
void require_finite(const std::vector<float>& targets, const UniverseLayout& layout, const std::string& path);

/// Bytes of an element of the volume in memory: 2 for int16 and uint16, else 4 (float32).
std::int64_t element_bytes(hdf5::Type stored);
/// Whether the type is int16, uint16 or float32. Such elements are read without HDF5 if they lie in the file as in
/// memory.
bool is_native(hdf5::Type stored);

/// The position in the file at which the elements of the volume lie as in memory; -1: they must be read by HDF5, or lie
/// in another file.
std::int64_t volume_offset(const UniverseContent& content);

/// The first 64 KiB of the bytes around the volume's elements in a file: HDF5's description of both arrays, attributes,
/// and the targets. Two files of the same size in which these bytes are equal differ only in their voxels.
struct Surroundings {
  std::string bytes;
  bool whole = false;  ///< `bytes` has all bytes around the elements

  /// `offset` and `length`: position and size of the volume's elements, in bytes.
  static Surroundings read(const RawFile& file, std::int64_t size, std::int64_t offset, std::int64_t length);
  std::uint64_t hash() const;
};

}  // namespace keelson::cosmoflow::detail
