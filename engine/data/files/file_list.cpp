#include "engine/data/files/file_list.hpp"

#include <cstring>
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

namespace fs = std::filesystem;

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos && !fs::exists(path); }

/// The common prefix of all files that `path` names: up to the last slash before a file's name or a pattern.
std::string prefix_of(const std::string& path) {
  if (fs::is_directory(path)) return path.ends_with('/') ? path : path + '/';
  const auto end = is_pattern(path) ? path.find_first_of("*?[\\") : std::string::npos;
  const auto slash = path.substr(0, end).rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

FileList::FileList(const std::string& path, Communicator* communicator, const Find& find,
                   std::shared_ptr<const FileCopies> copies)
    : copies_(std::move(copies)), table_(communicator) {
  std::vector<std::int64_t> ends;
  std::string names;
  on_first_rank(communicator, [&] {
    const auto prefix = prefix_of(path);
    for (const auto& found : find(path)) {
      KEELSON_EXPECT(found.starts_with(prefix));
      names += found.substr(prefix.size());
      ends.push_back(std::ssize(names));
    }
  });
  on_each_rank(communicator, [&] {
    if (!fs::exists(path) && !is_pattern(path))
      refuse("{}: does not exist here. Expected the files that rank 0 found; let all ranks see the same files", path);
    prefix_ = prefix_of(path);
  });
  std::int64_t counts[2] = {std::ssize(ends), std::ssize(names)};
  if (communicator) communicator->broadcast(counts, sizeof counts, 0);
  size_ = counts[0];
  table_.append(ends.data(), static_cast<std::size_t>(counts[0]) * sizeof(std::int64_t), 0);
  table_.append(names.data(), static_cast<std::size_t>(counts[1]), 0);
  table_.finish();
  if (copies_ && copies_->digest != digest())
    refuse("{}: holds other files than when they were copied to {}. Expected the same; leave the files alone", path,
           copies_->folder);
}

std::string FileList::path(std::int64_t i) const {
  return is_copied(i) ? copies_->folder + '/' + name(i) : prefix_ + name(i);
}

std::string FileList::folder_of(std::int64_t i) const { return is_copied(i) ? copies_->folder : folder(); }

std::string FileList::folder() const {
  const auto last = prefix_.find_last_not_of('/');
  return last == std::string::npos ? prefix_.substr(0, 1) : prefix_.substr(0, last + 1);
}

std::int64_t FileList::end_of_name(std::int64_t i) const {
  std::int64_t end = 0;
  if (i >= 0) std::memcpy(&end, table_.bytes().data() + i * std::int64_t{sizeof end}, sizeof end);
  return end;
}

std::string FileList::name(std::int64_t i) const {
  KEELSON_EXPECT(i >= 0 && i < size_);
  const auto* names = reinterpret_cast<const char*>(table_.bytes().data()) + size_ * std::int64_t{sizeof(std::int64_t)};
  return {names + end_of_name(i - 1), names + end_of_name(i)};
}

}  // namespace keelson
