#pragma once

#include <cstdint>
#include <string>

#include "engine/data/hdf5/hdf5.hpp"

namespace keelson {

/// What reading one sample takes from a file of HDF5. Chunks that are compressed are read as wholes, so a sample may
/// take many more bytes from the file than it has.
struct ReadCost {
  std::string path;              ///< the data set, as the user named it
  hdf5::DatasetInfo array;       ///< of the first file, with the samples
  hdf5::Dims sample;             ///< shape of a sample in the array
  double sample_bytes = 0;       ///< of a sample in the file, decompressed
  double read_bytes = 0;         ///< decompressed bytes that must be read for a sample: a mean over the samples
  double chunks_of_sample = 0;   ///< chunks that a sample touches: a mean over the samples
  std::int64_t chunk_bytes = 0;  ///< of a chunk, decompressed; 0: the samples do not lie in chunks

  /// Read amplification: bytes read for each byte of a sample; 1 is the least.
  double amplification() const { return sample_bytes > 0 ? read_bytes / sample_bytes : 1; }
};

/// The cost of reading a sample of the shape `sample` (one number for each dimension of the array), if the samples are
/// the boxes that fill the array, in order. If chunks are not filtered, only the needed part of a chunk is read.
ReadCost cost_of_samples(const std::string& path, const hdf5::DatasetInfo& array, const hdf5::Dims& sample);

/// A line that says what is wrong with the chunks, what is expected, and which command mends that; empty: nothing.
/// Wrong is an amplification above 1.5, chunks of more than 1 GiB, and chunks of less than 4 KiB if a sample takes
/// several. `program`: of the command, "keelson-cosmoflow".
std::string advice_on(const ReadCost& cost, const std::string& program);

}  // namespace keelson
