#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace keelson {

/// The files that were used last, kept open. Any thread may call.
template <class File>
class RecentFiles {
 public:
  /// `most`: number of files that are kept.
  explicit RecentFiles(std::size_t most = 16) : most_(most) {}

  /// File number `i`; if it is not open, the result of `open()`.
  template <class Open>
  std::shared_ptr<const File> get(std::int64_t i, const Open& open) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(files_, i, &Entry::first);
      if (found != files_.end()) {
        std::rotate(found, found + 1, files_.end());
        return files_.back().second;
      }
    }
    std::shared_ptr<const File> opened = open();
    const std::lock_guard lock(mutex_);
    std::erase_if(files_, [&](const Entry& e) { return e.first == i; });  // another thread may have been faster
    if (files_.size() == most_) files_.erase(files_.begin());
    files_.emplace_back(i, opened);
    return opened;
  }
  /// Closes file number `i`, e.g. because it could not be read: it may have been replaced.
  void close(std::int64_t i) {
    const std::lock_guard lock(mutex_);
    std::erase_if(files_, [&](const Entry& e) { return e.first == i; });
  }
  /// Calls `visit(file)` with each open file.
  template <class Visit>
  void for_each(const Visit& visit) const {
    const std::lock_guard lock(mutex_);
    for (const Entry& e : files_) visit(*e.second);
  }

 private:
  using Entry = std::pair<std::int64_t, std::shared_ptr<const File>>;

  std::size_t most_;
  mutable std::mutex mutex_;
  std::vector<Entry> files_;  ///< the file used last is at the end
};

}  // namespace keelson
