#pragma once

#include <string>

#include "engine/base/communicator.hpp"
#include "engine/data/files/shared_bytes.hpp"

namespace keelson {

/// The content of a small file that all ranks need: rank 0 reads the file, the others receive the bytes, so that the
/// shared file system sees one open instead of one per rank. Each rank holds the whole content. The path of rank 0
/// decides. Throws InputError on all ranks, naming the file. `communicator` null: one rank. Collective.
std::string read_once(const std::string& path, Communicator* communicator);

/// The same for large files: one copy per node, in SharedBytes. Rank 0 reads the file part by part.
SharedBytes read_once_per_node(const std::string& path, Communicator* communicator);

}  // namespace keelson
