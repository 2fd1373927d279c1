#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/communicator.hpp"

/// Data sets that a program's `generate` makes, file by file.
namespace keelson::app {

/// Some samples of a set, which become one file.
struct MadeFile {
  std::string set;               ///< "train"
  std::int64_t begin, end;       ///< numbers of the samples in the set
  std::filesystem::path folder;  ///< that of the set, which is there
  std::int64_t number;           ///< of the file in the set, from 0
};

/// Names and sizes of sets.
using MadeSets = std::vector<std::pair<std::string, std::int64_t>>;

/// Makes the folder out/SET of each set, and calls `write` for its files of `per_file` samples, the last of which may
/// have fewer. The ranks share the files, which do not depend on the number of ranks. Shows progress. Returns how many
/// files there are. Throws InputError on all ranks for a folder that cannot be made, and what `write` throws.
/// Collective.
std::int64_t make_sets(const std::string& out, const MadeSets& sets, std::int64_t per_file, Communicator& world,
                       const std::function<void(const MadeFile&)>& write);

}  // namespace keelson::app
