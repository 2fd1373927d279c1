#pragma once

#include <string>
#include <vector>

namespace keelson {

/// The HDF5 files that `path` names: `path` itself if it is a file; if it is a folder, the files in it and below it
/// that end in .h5, .hdf5 or .he5, without hidden files; if it is a pattern such as "data/run-*/x.h5", the files that
/// match. Sorted by bytes. Throws InputError with advice if there are no files, or if a folder holds several splits of
/// a data set (e.g. train and validation).
std::vector<std::string> find_hdf5_files(const std::string& path);

}  // namespace keelson
