#include "engine/data/find_files.hpp"

#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "engine/base/error.hpp"

namespace keelson {

namespace fs = std::filesystem;

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_hdf5_name(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  return extension == ".h5" || extension == ".hdf5" || extension == ".he5";
}

/// Whether the name is that of a TFRecord file, also a compressed one: "a.tfrecord", "a.tfrecords", "a.tfrecord.gz".
bool is_tfrecord_name(const fs::path& path) {
  return lower(path.filename().string()).find(".tfrecord") != std::string::npos;
}

constexpr const char* convert_advice = "TFRecord files must be converted to HDF5 first (docs/file-formats.md says how)";

/// Folders that usually hold separate parts of a dataset, which must not be mixed.
bool is_split_name(const std::string& name) {
  constexpr std::array names{"train", "training", "valid", "validation", "val", "test", "testing"};
  return std::find(names.begin(), names.end(), lower(name)) != names.end();
}

std::vector<std::string> splits_in(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && is_split_name(entry.path().filename().string())) found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> found;
  const std::vector<std::string> splits = splits_in(folder);
  if (splits.size() > 1) {
    refuse("{}: holds several parts of a dataset. Expected one; try {}", folder, fmt::join(splits, " or "));
  }
  std::int64_t others = 0, tfrecords = 0;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory()) {
      if (hidden) entry.disable_recursion_pending();
    } else if (!hidden && is_hdf5_name(entry->path())) {
      found.push_back(entry->path().string());
    } else {
      ++others;
      tfrecords += is_tfrecord_name(entry->path());
    }
  }
  if (!found.empty()) return found;
  if (tfrecords > 0) refuse("{}: holds {} TFRecord files and no HDF5. {}", folder, tfrecords, convert_advice);
  if (others > 0) {
    refuse(
        "{}: holds no HDF5 files among {} others. Expected names that end in .h5 or .hdf5; a pattern such as '{}/*' "
        "takes any name",
        folder, others, folder);
  }
  refuse("{}: is an empty folder. Expected HDF5 files; generate or fetch some", folder);
}

std::vector<std::string> files_matching(const std::string& pattern) {
  glob_t matches{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> found;
  for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i)
    if (!fs::is_directory(matches.gl_pathv[i])) found.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
  if (found.empty()) refuse("{}: no file matches this pattern. Expected HDF5 files; check the path", pattern);
  return found;
}

/// "; there are a, b" for the nearest folder that exists, since most missing paths are misspelt.
std::string neighbours(const fs::path& missing) {
  fs::path folder = missing.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  if (error) return fmt::format("; {} does not exist either", folder.string());
  if (names.empty()) return fmt::format("; {} is empty", folder.string());
  std::sort(names.begin(), names.end());
  const bool more = names.size() > 8;
  names.resize(std::min<std::size_t>(names.size(), 8));
  return fmt::format("; {} holds {}{}", folder.string(), fmt::join(names, ", "), more ? ", ..." : "");
}

}  // namespace

std::vector<std::string> find_hdf5_files(const std::string& path) {
  try {
    std::vector<std::string> found;
    if (fs::is_directory(path)) {
      found = files_below(path);
    } else if (fs::exists(path)) {
      if (is_tfrecord_name(path)) refuse("{}: is a TFRecord file. Expected HDF5; {}", path, convert_advice);
      found = {path};
    } else if (path.find_first_of("*?[") != std::string::npos) {
      found = files_matching(path);
    } else {
      const fs::path trimmed = fs::path(path).filename().empty() ? fs::path(path).parent_path() : fs::path(path);
      refuse("{}: does not exist. Expected a folder of HDF5 files, a file or a pattern; check the path{}",
             path.empty() ? "(empty path)" : path, neighbours(trimmed));
    }
    std::sort(found.begin(), found.end());
    return found;
  } catch (const fs::filesystem_error& e) {
    refuse("{}: cannot be searched: {}. Check its permissions", path, e.code().message());
  }
}

}  // namespace keelson
