#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/sample_files.hpp"
#include "engine/data/files/file_list.hpp"

/// Copying data to the nodes' own disks, or to a burst buffer (engine/data/stage/stage.hpp).
namespace keelson::app {

/// What the files of a program's data are.
struct StagedKind {
  FileList::Find find;                   ///< of the files of samples
  std::vector<std::string> beside = {};  ///< as StageOptions::beside
};

/// The user's options about staging.
struct StageRequest {
  std::string data;           ///< --data of the subcommand `stage`
  std::string target;         ///< --stage of `train`, --out of `stage`; empty: no staging
  std::string mode = "full";  ///< "full", "sample" or "shard"
  std::int64_t count = 0;     ///< files per node of mode sample
  std::uint64_t seed = 1;     ///< of the choice of files
  bool verify = false;        ///< compares checksums of copies that are there
};

/// Declares --stage, --stage-mode and --verify-stage on a subcommand that trains.
void declare(StageRequest& o, Subcommand& subcommand);

/// With --stage: copies the training data to the folder train/ of the target, and the validation data to validation/.
/// The result names the data to open: the copies, or without --stage those of `files`. Rank 0 prints what was copied.
/// Throws InputError for a mode other than full. Collective.
SampleFiles stage_training_data(const StageRequest& o, const StagedKind& kind, const SampleFiles& files,
                                Communicator& world);

/// Defines the subcommand `stage`, which copies data without training.
void define_stage(CommandLine& line, const StagedKind& kind);

}  // namespace keelson::app
