#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace keelson::search {

/// The log of a search: a file to which all workers append lines, and the whole state of the search. Workers are
/// processes on any nodes that share the file system; they use neither locks nor messages. The order of the lines in
/// the file decides whose claim came first.
///
/// Each line is a JSON object whose last entry, "check", is the CRC-32C of what is before it. Lines without a newline
/// yet are not read. A line that was torn, by a process that was killed or a disk that was full, is left out, and the
/// next line begins anew.
class SearchLog {
 public:
  /// Opens the file, and makes it if it does not exist and `writable`. Throws InputError if there is none.
  SearchLog(std::filesystem::path path, bool writable);
  ~SearchLog();
  SearchLog(const SearchLog&) = delete;
  SearchLog& operator=(const SearchLog&) = delete;

  /// Calls `take` with each valid line that was not read yet, without "check", in the order of the file.
  void read_new(const std::function<void(const std::string& json)>& take);
  /// Appends a JSON object as one line, and waits until it is on the disk. Appends again if another write has damaged
  /// the line (a network file system without atomic appends). Throws Error with the system's reason. `take`: as in
  /// read_new(), for the lines up to this one, which is the last.
  void append(const std::string& json, const std::function<void(const std::string& json)>& take);

  std::int64_t broken_lines() const { return broken_; }        ///< lines that were left out so far
  std::int64_t first_broken() const { return first_broken_; }  ///< number of the first of them, from 1
  const std::filesystem::path& path() const { return path_; }  ///< of the file

 private:
  bool ends_in_a_torn_line() const;
  void write_line(const std::string& line) const;

  std::filesystem::path path_;
  int file_ = -1;
  std::int64_t offset_ = 0, lines_ = 0, broken_ = 0, first_broken_ = 0;
};

}  // namespace keelson::search
