#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/cosmoflow/data/detail/decode.hpp"
#include "apps/cosmoflow/data/detail/universe_content.hpp"

namespace keelson::cosmoflow::detail {

/// Some planes of a cube of a stored volume.
struct VoxelBox {
  std::int64_t sample = 0;              ///< number within the file
  std::array<std::int64_t, 3> first{};  ///< first voxel, in the volume
  std::int64_t planes = 0, edge = 0;    ///< extents: planes x edge x edge
};

/// A file of universes that is open for reading, in one of the formats that are read by more than a position. Several
/// threads may read.
class UniverseFile {
 public:
  virtual ~UniverseFile() = default;
  virtual const UniverseContent& content() const = 0;
  /// The stored targets of all samples (samples, columns).
  virtual std::vector<float> targets() const = 0;
  /// Takes some planes of a box, with all channels, from plane `first` of the box on.
  using Visit = std::function<void(const Voxels& voxels, std::int64_t first)>;
  /// Reads the voxels of a box, and calls `visit` for a few planes at a time, in order, as long as they are in a cache;
  /// they are valid until `visit` returns. `dst`, if it is not null, has room for a box as large as the volume, where
  /// the voxels may be left. Throws InputError for data that cannot be read, also after `visit` has seen them.
  virtual void read(const VoxelBox& box, void* dst, const Visit& visit) const = 0;
  virtual std::int64_t memory() const { return 0; }  ///< bytes that this object holds, if these are many
};

/// Where a box lies in the array of the volumes.
struct BoxInFile {
  hdf5::Dims offset, count;  ///< one number per dimension
};
BoxInFile box_in_file(const UniverseLayout& layout, const VoxelBox& box);

/// Opens a file of the format that its name and its first bytes show: TFRecord, HDF5, NetCDF or NumPy. `folder`: as in
/// hdf5::File::open. Throws InputError for a file that is no universe.
std::unique_ptr<const UniverseFile> open_universe_file(const std::string& path, const std::string& folder);
/// The same for each format.
std::unique_ptr<const UniverseFile> open_hdf5_universes(const std::string& path, const std::string& folder);
std::unique_ptr<const UniverseFile> open_tfrecord_universes(const std::string& path);
std::unique_ptr<const UniverseFile> open_array_universes(const std::string& path, const std::string& folder);

/// Memory of this thread for bytes that are not yet decoded, aligned to 64 bytes; valid until the next call.
char* thread_memory(std::int64_t bytes);

}  // namespace keelson::cosmoflow::detail
