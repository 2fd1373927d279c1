#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/base/atomic_file.hpp"
#include "engine/base/communicator.hpp"
#include "engine/data/stage/detail/stage_manifest.hpp"
#include "engine/data/stage/detail/stage_places.hpp"
#include "engine/data/stage/detail/stage_source.hpp"
#include "engine/data/stage/stage.hpp"
#include "engine/data/stage/stage_plan.hpp"

namespace keelson::detail {

/// A file that is being written into the folder of copies, from the beginning to the end.
class StagedFile {
 public:
  /// Makes the folder of `path` and a temporary file in it. Throws Error.
  explicit StagedFile(const std::string& path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  void write(const void* data, std::int64_t bytes);  ///< throws Error with the system's reason
  std::uint32_t crc() const { return crc_; }         ///< of all bytes written so far
  std::int64_t bytes() const { return bytes_; }      ///< written so far
  void commit();                                     ///< gives the file its name; throws Error

 private:
  std::string path_;
  AtomicFile file_;
  int descriptor_ = -1;
  std::uint32_t crc_ = 0;
  std::int64_t bytes_ = 0;
};

/// The work of one rank in stage_files(): the files that its lane of its place has, and what is done.
class StageWork {
 public:
  /// A file that this rank copies.
  struct Item {
    std::int64_t file = 0;  ///< number in the source
    bool owned = false;     ///< read from the source by this rank; else another place sends the file
    bool present = false;   ///< the copy is complete
    std::uint32_t crc = 0;  ///< of the complete copy
  };

  /// All references must outlive this.
  StageWork(const StageOptions& options, const StageSource& source, const StagePlan& plan, const StagePlaces& places);

  /// Reads the manifest, and finds the copies that are complete. Throws InputError for a folder that cannot be used.
  /// Collective in the place.
  void look_around();
  /// Prepares the manifest and the folder, and compares the free space with what is missing. The first rank of the
  /// place works. Throws InputError.
  void prepare(std::int64_t missing_bytes_of_place);
  void begin() { manifest_.begin_part(places_.lane); }  ///< of the ranks that copy
  void copy_owned();                                    ///< reads all own files that are missing from the source
  void exchange();     ///< gets the other missing files from the other places, and sends them own files
  void copy_beside();  ///< writes the small files; the first rank of the place works
  void end();          ///< closes this rank's part of the manifest
  void finish() { manifest_.join(header()); }  ///< joins the parts; the first rank of the place works

  const std::vector<Item>& items() const { return items_; }  ///< of this rank, by number in the source
  std::int64_t missing_bytes() const;                        ///< of this rank
  std::int64_t missing_files() const;                        ///< of this rank
  StageResult& result() { return result_; }                  ///< of this rank

  // For the exchange.
  std::int64_t bytes(std::int64_t file) const { return source_.bytes(file); }
  std::string name(std::int64_t file) const { return source_.name(file); }
  std::string target(std::int64_t file) const { return options_.target + "/" + source_.name(file); }
  std::vector<std::int64_t> wanted_from(int place) const;  ///< the missing files that a place owns
  std::uint32_t crc(std::int64_t file) const;              ///< of a complete copy
  void keep(std::int64_t file, StagedFile& copy);          ///< records a complete copy and gives it its name
  void report(const char* phase, std::int64_t files, std::int64_t of, std::int64_t bytes, double seconds) const;

 private:
  StageHeader header() const;
  std::size_t index_of(std::int64_t file) const;
  void copy(Item& item, char* buffer);
  void try_copy(const Item& item, char* buffer);
  bool is_complete(Item& item);
  void require_ours(const std::string& name) const;
  std::set<std::string> remove_unplanned() const;

  const StageOptions& options_;
  const StageSource& source_;
  const StagePlan& plan_;
  const StagePlaces& places_;
  StageManifest manifest_;
  std::vector<Item> items_;
  StageResult result_;
  std::mutex mutex_;  ///< of manifest_ and result_ while several threads copy
};

}  // namespace keelson::detail
