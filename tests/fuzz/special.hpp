#pragma once

#include <filesystem>
#include <string>

#include "tests/fuzz/mutate.hpp"

/// Damage of one kind each, which a program must tell the user of.
namespace keelson::fuzz {

/// Makes at `path` what is no file that can be read: a folder, a pipe, a link to /dev/zero or to itself, a socket's
/// name, or a sparse file of 8 GiB.
void make_special(const std::filesystem::path& path, Random& random);

/// Copies the run's folder `run` to `path` and makes something special of its lock or its metrics or its report there.
void damage_run(const std::filesystem::path& run, const std::filesystem::path& path, Random& random);

/// The bytes of a file of universes with one number of parameter_minimum or parameter_maximum changed.
std::string damage_range(const std::filesystem::path& universe, Random& random);

/// The bytes of a statistics file in which one channel has the same least and greatest value.
std::string damage_statistics(const std::filesystem::path& statistics, Random& random);

/// A configuration of which one line has lost its value.
std::string lose_value(std::string config, Random& random);

}  // namespace keelson::fuzz
