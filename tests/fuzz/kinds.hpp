#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.hpp"
#include "tests/fuzz/trial.hpp"

namespace keelson::fuzz {

/// A kind of file, how it is damaged, and what reads it.
struct Kind {
  std::string name;
  std::string file;  ///< name, in the trial's folder
  /// Writes a damaged file, or whatever is there in its place.
  std::function<void(const std::filesystem::path& file, Random& random)> damage;
  std::vector<Trial> readers;  ///< {} stands for the trial's folder
  std::string original = {};   ///< bytes, which all readers accept
  bool file_is_read = true;    ///< `original` is set
  bool always_wrong = false;   ///< no reader may accept it
  /// All content has checksums: a reader that accepts a file must say of it what it says of the original.
  bool is_checked = false;
};

/// Runs a trial that must end well.
void make(const std::filesystem::path& folder, const Trial& trial);

/// Makes data and runs in `base`, and the kinds of files from them. `part`: of the names of those that are needed, so
/// that for searches nothing else is made.
std::vector<Kind> make_kinds(const std::filesystem::path& base, const std::string& part);

}  // namespace keelson::fuzz
