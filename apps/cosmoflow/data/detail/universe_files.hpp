#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/hdf5.hpp"

namespace keelson::cosmoflow::detail {

/// What all files of a dataset have in common.
struct UniverseLayout {
  std::string volume, targets;  ///< names: x and y, or full and unitPar
  hdf5::Type type{};            ///< of the volume
  std::string type_name;
  bool many = false;          ///< several samples per file: first dimension of both
  bool channel_axis = false;  ///< the volume has one; else there is one channel
  std::int64_t edge = 0, channels = 1, columns = 0;

  hdf5::Dims volume_shape() const;  ///< of one sample, as stored
  std::int64_t volume_elements() const { return edge * edge * edge * channels; }
};

struct UniverseFile {
  std::string path;
  std::int64_t samples = 1;
  std::int64_t raw_offset = -1;  ///< of the volume; -1: only HDF5 can read it
  std::string raw_path;          ///< where the volume lies there: `path`, or where a link in it leads
};

struct UniverseFiles {
  UniverseLayout layout;
  std::vector<UniverseParameter> parameters;  ///< one per column
  std::vector<UniverseFile> files;
  std::vector<float> targets;  ///< (samples, columns), in order of files
  std::uint64_t digest = 0;    ///< of names, sizes, layout and targets
};

/// Opens every file, in several threads, and reads all targets. `folder` is that of the data set; the digest has names
/// below it. Throws InputError for the first file, in the order
/// given, that does not fit the first one or holds a target that is not finite.
UniverseFiles check_universe_files(const std::vector<std::string>& paths, const std::string& folder);

}  // namespace keelson::cosmoflow::detail
