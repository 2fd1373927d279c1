#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::app {

/// One member of an ensemble, as files tell of it.
struct MemberRecord {
  std::int64_t member = 0;         ///< its number, from 0
  std::uint64_t seed = 0;          ///< of its run
  std::string state = "waiting";   ///< "waiting", "training", or why its training ended: "all epochs done", ...
  std::string error;               ///< why its training failed; empty: it has not
  std::int64_t epochs = 0;         ///< finished
  std::int64_t epochs_wanted = 0;  ///< --epochs of its last run
  std::int64_t step = 0;           ///< optimizer steps done
  /// Of the best validation; NaN: none.
  double metric = std::numeric_limits<double>::quiet_NaN();
  /// The options of its own design, as text, by their names; and the values that these options, and those that depend
  /// on them, would have without the design. The second is known when the member has begun.
  std::map<std::string, std::string> options, common;

  /// "member-003", the folder of its run in that of the ensemble.
  static std::string folder(std::int64_t member);
};

/// ensemble.json in the folder of an ensemble: which members it has. Each member's folder has the same record of its
/// own member, member.json, which the rank that trains the member writes.
struct EnsembleFile {
  std::string program;       ///< that trains it: "keelson-cosmoflow"
  std::uint64_t seed = 1;    ///< from which those of the members come
  int member_ranks = 1;      ///< ranks that train a member
  bool stacked = false;      ///< the members of a rank are trained together
  std::string metric;        ///< name of the members' metric; empty: not known yet
  std::int64_t designs = 0;  ///< member m has the design of member m % designs; 0: all have the same
  std::vector<MemberRecord> members;

  static std::filesystem::path path(const std::filesystem::path& folder) { return folder / "ensemble.json"; }
  /// Whether the folder is that of an ensemble. Called by one rank.
  static bool exists(const std::filesystem::path& folder);
  /// Whether any member in the folder has a checkpoint: else nothing would be lost with the ensemble. Called by one
  /// rank.
  static bool has_checkpoints(const std::filesystem::path& folder);
  /// The file in `folder`, read by the first rank. Nothing: there is none. Throws InputError on all ranks for a file
  /// that cannot be read. Collective.
  static std::optional<EnsembleFile> read(const std::filesystem::path& folder, Communicator& world);
  /// Replaces the file in `folder`. Called by one rank.
  void write(const std::filesystem::path& folder) const;
  /// Takes what the members' own files say. Called by one rank.
  void update(const std::filesystem::path& folder);
};

/// Replaces member.json in the folder of the member's run. Called by one rank.
void write_member(const MemberRecord& record, const std::filesystem::path& folder);

}  // namespace keelson::app
