#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace keelson {

/// A file to which processes append lines, on any nodes that share the file system, without locks and messages. The
/// order of the lines in the file decides what came first. The log of a search and the journal of labels are such
/// files.
///
/// Each line is a JSON object whose last entry, "check", is the CRC-32C of what is before it. Lines without a newline
/// yet are not read. A line that was torn, by a process that was killed or a disk that was full, is left out, and the
/// next line begins anew.
class LineLog {
 public:
  /// What the messages of errors tell the user to do.
  struct Advice {
    std::string missing;  ///< "a search writes this file: keelson-search run --out FOLDER begins one"
    std::string full;     ///< "what the log has so far is kept: keelson-search resume goes on"
  };
  /// Opens the file, and makes it if it does not exist and `writable`. Throws InputError if there is none.
  LineLog(std::filesystem::path path, bool writable, Advice advice);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

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
  [[noreturn]] void fail_to_write() const;
  void write_line(const std::string& line) const;

  std::filesystem::path path_;
  Advice advice_;
  int file_ = -1;
  std::int64_t offset_ = 0, lines_ = 0, broken_ = 0, first_broken_ = 0;
};

}  // namespace keelson
