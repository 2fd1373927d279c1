#include "engine/data/files/find_files.hpp"

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

bool is_hdf5_name(const std::string& path) {
  const std::string extension = lower(fs::path(path).extension().string());
  return extension == ".h5" || extension == ".hdf5" || extension == ".he5";
}

/// "a, b or c"
std::string any_of(const std::vector<std::string>& words) {
  const std::string last = words.back();
  const std::vector<std::string> others(words.begin(), words.end() - 1);
  return others.empty() ? last : fmt::format("{} or {}", fmt::join(others, ", "), last);
}

/// "HDF5, NetCDF or NumPy"
std::string names_of(const std::vector<FileForm>& forms) {
  std::vector<std::string> names;
  for (const FileForm& f : forms) names.push_back(f.name);
  return any_of(names);
}

/// What to do with a file of another form that the caller cannot read; empty if the form is not known.
std::string advice_for_others(const std::string& path, const std::vector<FileForm>& forms) {
  const bool reads_records = std::ranges::any_of(forms, [&](const FileForm& f) { return f.has_name(path); });
  return !reads_records && is_tfrecord_name(path) ? " TFRecords are read as universes alone: write them as HDF5, with "
                                                    "h5py (docs/file-formats.md has the layout)"
                                                  : "";
}

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

std::vector<std::string> files_below(const std::string& folder, const std::vector<FileForm>& forms) {
  const std::vector<std::string> splits = splits_in(folder);
  if (splits.size() > 1) {
    refuse("{}: holds several parts of a dataset. Expected one; try {}", folder, fmt::join(splits, " or "));
  }
  std::vector<std::vector<std::string>> found(forms.size());
  std::int64_t others = 0;
  std::string advice;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = entry->path().string();
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory()) {
      if (hidden) entry.disable_recursion_pending();
      continue;
    }
    const auto form = std::ranges::find_if(forms, [&](const FileForm& f) { return !hidden && f.has_name(path); });
    if (form != forms.end()) {
      found[static_cast<std::size_t>(form - forms.begin())].push_back(path);
    } else {
      ++others;
      if (advice.empty()) advice = advice_for_others(path, forms);
    }
  }
  std::vector<std::size_t> present;
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (!found[i].empty()) present.push_back(i);
  if (present.size() == 1) return found[present[0]];
  if (present.size() > 1)
    refuse("{}: holds {} {} files and {} {} files. Expected one form; name the files by a pattern, or move some away",
           folder, found[present[0]].size(), forms[present[0]].name, found[present[1]].size(), forms[present[1]].name);
  if (others > 0) {
    std::vector<std::string> endings;
    for (const FileForm& f : forms) endings.push_back(f.ending);
    refuse("{}: holds no {} files among {} others. Expected names that {}; a pattern such as '{}/*' takes any name.{}",
           folder, names_of(forms), others, any_of(endings), folder, advice);
  }
  refuse("{}: is an empty folder. Expected {} files; generate or fetch some", folder, names_of(forms));
}

std::vector<std::string> files_matching(const std::string& pattern, const std::vector<FileForm>& forms) {
  glob_t matches{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> found;
  for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i)
    if (!fs::is_directory(matches.gl_pathv[i])) found.emplace_back(matches.gl_pathv[i]);
  globfree(&matches);
  if (found.empty())
    refuse("{}: no file matches this pattern. Expected {} files; check the path", pattern, names_of(forms));
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

bool is_tfrecord_name(const std::string& path) {
  return lower(fs::path(path).filename().string()).find(".tfrecord") != std::string::npos;
}

FileForm hdf5_form() { return {"HDF5", "end in .h5 or .hdf5", is_hdf5_name}; }
FileForm tfrecord_form() { return {"TFRecord", "contain .tfrecord", is_tfrecord_name}; }

std::vector<std::string> find_hdf5_files(const std::string& path) { return find_files(path, {hdf5_form()}); }

std::vector<std::string> find_files(const std::string& path, const std::vector<FileForm>& forms) {
  try {
    std::vector<std::string> found;
    if (fs::is_directory(path)) {
      found = files_below(path, forms);
    } else if (fs::exists(path)) {
      if (const auto advice = advice_for_others(path, forms); !advice.empty())
        refuse("{}: is a TFRecord file. Expected {}.{}", path, names_of(forms), advice);
      found = {path};
    } else if (path.find_first_of("*?[") != std::string::npos) {
      found = files_matching(path, forms);
    } else {
      const fs::path trimmed = fs::path(path).filename().empty() ? fs::path(path).parent_path() : fs::path(path);
      refuse("{}: does not exist. Expected a folder of {} files, a file or a pattern; check the path{}",
             path.empty() ? "(empty path)" : path, names_of(forms), neighbours(trimmed));
    }
    std::sort(found.begin(), found.end());
    return found;
  } catch (const fs::filesystem_error& e) {
    refuse("{}: cannot be searched: {}. Check its permissions", path, e.code().message());
  }
}

}  // namespace keelson
