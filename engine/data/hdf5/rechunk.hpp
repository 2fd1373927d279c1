#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::hdf5 {

/// How an array is to be stored.
struct NewLayout {
  std::string name;  ///< "x", "climate/data"
  Dims chunk;        ///< shape of a chunk; empty: contiguous
};

/// How arrays are to be compressed that lie in chunks.
struct NewFilters {
  int gzip = 0;          ///< level 1 to 9; 0: none
  bool shuffle = false;  ///< HDF5's shuffle, after which integers compress better
};

/// Writes a copy of the HDF5 file `source` to `target`, which is made or replaced, with these arrays stored anew in
/// this machine's byte order. All else is kept: other arrays and groups with their storage, attributes, and links,
/// which lead to the same names as before. An array that is read through an external link, as File::open allows, is
/// brought into the copy. The same file gives the same copy.
///
/// The arrays pass through memory in boxes of at most 256 MiB, or one new chunk. `progress` is called after each box,
/// with its bytes. Throws InputError for a source that cannot be read, has elements that were never written, or has
/// attributes that refer to other objects; Error if writing fails (a full disk).
void rechunk(const std::string& source, const std::string& target, const std::vector<NewLayout>& arrays,
             const NewFilters& filters, const std::function<void(std::int64_t bytes)>& progress);

/// Whether `target` has these arrays of `source`, with the same shapes, stored as rechunk() stores them.
bool is_rechunked(const std::string& source, const std::string& target, const std::vector<NewLayout>& arrays,
                  const NewFilters& filters);

}  // namespace keelson::hdf5
