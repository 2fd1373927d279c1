#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::detail {

/// What the manifest in a folder of staged files says about the source and the plan.
struct StageHeader {
  std::string source;  ///< path, as absolute path of rank 0; for people
  std::uint64_t digest = 0;
  std::string mode;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  int place = 0, places = 1;
};

/// A complete file in the folder.
struct StageRecord {
  std::string name;
  std::int64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32C
};

/// The manifest of a folder of staged files: JSON lines, of which the first describes the source and the plan, and each
/// other one a complete file. The ranks that copy files append lines to parts of the manifest; at the beginning and at
/// the end of staging, the first rank of the place joins the parts. So after a start that was killed, the manifest and
/// its parts name all files whose copies may be complete.
class StageManifest {
 public:
  explicit StageManifest(std::string folder) : folder_(std::move(folder)) {}
  ~StageManifest();
  StageManifest(const StageManifest&) = delete;
  StageManifest& operator=(const StageManifest&) = delete;

  /// Reads the manifest and its parts; the first of `members` (null: this rank alone) reads, the others get the text. A
  /// line that was cut off is left out. Throws InputError if the folder holds copies of a source with another digest
  /// than `expected`, or a manifest that cannot be read. Collective in `members`.
  void read(const StageHeader& expected, Communicator* members);
  /// The record of a file; null: none.
  const StageRecord* find(const std::string& name) const;
  /// All records, by name.
  const std::map<std::string, StageRecord>& records() const { return records_; }
  /// Removes records, and writes the manifest anew without its parts. Called by the first rank of the place.
  void write(const StageHeader& header, const std::set<std::string>& without);
  /// Joins the parts with the manifest again. Called by the first rank of the place, when all parts are closed.
  void join(const StageHeader& header);
  /// Begins a part of the manifest that this rank appends to.
  void begin_part(int lane);
  /// Appends a record to the part. May be called by one thread at a time. Throws Error if it cannot be written.
  void append(const StageRecord& record);
  void end_part();  ///< closes the part

 private:
  std::string read_text() const;
  void parse(const std::string& text, const StageHeader& expected);
  [[noreturn]] void refuse_line(const std::string& line) const;
  std::vector<std::string> parts() const;

  std::string folder_;
  std::map<std::string, StageRecord> records_;
  int part_ = -1;  ///< file descriptor
};

}  // namespace keelson::detail
