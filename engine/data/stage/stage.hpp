#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/stage/file_copies.hpp"
#include "engine/data/stage/stage_plan.hpp"

namespace keelson {

/// How far the rank has come that reports.
struct StageProgress {
  const char* phase = "";          ///< "read" or "exchanged"
  std::int64_t files = 0;          ///< done by this rank in this phase
  std::int64_t files_of_rank = 0;  ///< to be done by this rank in this phase
  std::int64_t bytes = 0;          ///< of these files, done
  double seconds = 0;              ///< since the phase began
};

/// What stage_files() copies, and where to.
struct StageOptions {
  std::string source;                ///< a file, a folder or a pattern, as in FileList
  FileList::Find find;               ///< as in FileList
  std::vector<std::string> beside;   ///< names of small files, in the folder of the first file or in the one above it,
                                     ///< that every place gets if they exist: "stats.h5"
  std::string target;                ///< the folder that gets the files, on this rank; made if it is not there
  StageMode mode = StageMode::full;  ///< which files
  std::int64_t count = 0;            ///< files per place in StageMode::sample
  std::uint64_t seed = 0;            ///< of the random order in StagePlan
  bool verify = false;               ///< compares the checksums of files that are there already
  std::int64_t piece = 0;            ///< bytes of a message; 0: up to 16 MiB, 256 MiB per place altogether
  std::function<void(const StageProgress&)> progress;  ///< called on rank 0 from time to time; may be empty
  std::function<void(const std::string&)> notice;      ///< called on any rank, for files that are copied again
};

/// What stage_files() did. Sums over all ranks; the same on all ranks.
struct StageResult {
  int places = 1;                    ///< folders that got files: one per node, or one for all nodes
  std::int64_t files = 0;            ///< different files that were asked for
  std::int64_t bytes = 0;            ///< of these files
  std::int64_t files_present = 0;    ///< copies that were there already
  std::int64_t files_repaired = 0;   ///< copies with a wrong checksum, which were made again
  std::int64_t opened = 0;           ///< times that a file of the source was opened
  std::int64_t files_read = 0;       ///< files read from the source
  std::int64_t bytes_read = 0;       ///< of these files
  double read_seconds = 0;           ///< of the slowest rank
  std::int64_t files_exchanged = 0;  ///< copies that came from another place
  std::int64_t bytes_exchanged = 0;  ///< of these copies
  double exchange_seconds = 0;       ///< of the slowest rank
  /// Which copies are where; null: each place has all files.
  std::shared_ptr<const FileCopies> copies;
};

/// Copies the files of a data set to folders on the nodes' own disks, or to one folder on a burst buffer, such that
/// each file of the source is opened and read once in total. Names and bytes stay, so a data set that is opened from
/// the copy has the same digest (StageMode::full).
///
/// - **Places.** Ranks that see the same folder under `target` form a place: the ranks of a node, or all ranks for a
///   folder on a shared file system. The ranks of a place share its work.
/// - **Reading.** Rank 0 lists the files and asks for their sizes. Each place copies the files that it owns
/// (StagePlan),
///   up to 8 at the same time. A failing read is tried three times.
/// - **Exchange.** In round s, place r sends to place r + s and receives from place r - s, so each pair meets once.
/// Files
///   are cut into messages of `piece` bytes; two messages are in flight in each direction, and bytes are written to
///   disk as they come. Checksums (CRC-32C) are compared at the end of each file.
/// - **Resuming.** Files are written under temporary names and renamed. A manifest (docs/file-formats.md) in the folder
///   names all complete files. If a start is interrupted, the next one copies what is missing. Files of an earlier plan
///   (another mode, seed, count or number of places) that the new plan does not need are removed.
///
/// All ranks throw if one of them does. InputError: no files; a folder that holds copies of another source, or of a
/// source that has changed since; files of these names that staging did not make; too little free space; a file that
/// cannot be read. Error: a disk that becomes full, with the number of files that are missing.
///
/// The memory of a place does not exceed 256 MiB (or 4 `piece` per rank), plus some bytes per file. `world` null: one
/// rank. Collective.
StageResult stage_files(const StageOptions& options, Communicator* world);

}  // namespace keelson
