#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace keelson {

/// Choices that were made by measuring, kept in a JSON file {"key": "choice", ...} which processes share.
///
/// The first one to measure a key holds a lock while it does; the others wait and then find what it chose. A choice
/// stays until somebody cannot use it. If the file system has no locks each process measures, and the last one's
/// file stays; if the folder cannot be written, choices are kept in memory only. A file that is broken is ignored,
/// with a warning on stderr, and replaced.
class ChoiceCache {
 public:
  /// Empty: in memory only.
  explicit ChoiceCache(std::filesystem::path file = {}) : file_(std::move(file)) {}

  /// The known choice for `key`, if `usable` takes it; else what `measure` returns, from now on. What `measure` throws
  /// passes through, and nothing is kept.
  std::string choose(const std::string& key, const std::function<bool(const std::string&)>& usable,
                     const std::function<std::string()>& measure);

  /// The file; empty: choices are kept in memory only.
  const std::filesystem::path& file() const { return file_; }

 private:
  void read();
  void write();

  std::filesystem::path file_;
  std::map<std::string, std::string> choices_;
  bool warned_ = false;
};

/// Whether KEELSON_TUNE is off: rules of thumb take the place of measuring. Throws InputError for a value other than on
/// and off.
bool tuning_is_off();

/// The file of the choices of this name, which may have any characters; empty without a folder for it.
std::filesystem::path choice_file(std::string name);

}  // namespace keelson
