#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/sample_files.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/stage/file_copies.hpp"

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

/// Declares --stage, --stage-mode, --stage-count and --verify-stage on a subcommand that trains.
void declare(StageRequest& o, Subcommand& subcommand);

/// The data to open after staging.
struct StagedFiles {
  std::string train, validation;             ///< copies; or the source: without staging, and with `copies`
  std::shared_ptr<const FileCopies> copies;  ///< of the training data, if the nodes have a part each; else null
};

/// With --stage: copies the training data to the folder train/ of the target, and the validation data to validation/,
/// all of them in any mode. Rank 0 prints what was copied. Throws InputError for options that do not go together.
/// Collective.
StagedFiles stage_training_data(const StageRequest& o, const StagedKind& kind, const SampleFiles& files,
                                Communicator& world);

/// Defines the subcommand `stage`, which copies data without training.
void define_stage(CommandLine& line, const StagedKind& kind);

}  // namespace keelson::app
