#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::app {

/// An array of a file that holds samples.
struct SampleArray {
  std::string name;
  hdf5::Dims sample;          ///< the part of the array that is one sample: one number for each dimension
  bool many_samples = false;  ///< the first dimension counts samples
};

/// Defines the subcommand `rechunk`, which copies HDF5 files and stores their samples in other chunks. `what`: the
/// samples, for --help: "universes". `find`: the arrays of samples in a file; none if the file holds no samples.
void define_rechunk_subcommand(CommandLine& line, const std::string& what,
                               const std::function<std::vector<SampleArray>(const hdf5::File&)>& find);

}  // namespace keelson::app
