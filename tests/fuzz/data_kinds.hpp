#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/kinds.hpp"

/// Files of data in every form that is read, but for the programs' own HDF5.
namespace keelson::fuzz {

/// Intact data that the kinds are made of.
struct DataFolders {
  std::filesystem::path universes;            ///< contiguous
  std::filesystem::path chunked;              ///< the same, in compressed chunks
  std::filesystem::path weather;              ///< snapshots
  std::filesystem::path staged;               ///< gets a staged copy of universes/train
  std::vector<std::string> training_options;  ///< for a small network of keelson-climate
};

/// Tables, arrays, TFRecords and staged copies, damaged.
std::vector<Kind> data_kinds(const DataFolders& folders);

}  // namespace keelson::fuzz
