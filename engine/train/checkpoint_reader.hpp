#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/train/checkpoint.hpp"

namespace keelson {

/// A checkpoint that is open for reading: a file, or a copy in memory. The file stays readable when a run that
/// continues removes its older checkpoints meanwhile. Rank 0 of the communicator reads the file and sends the contents
/// to the other ranks. InputError is thrown on all ranks. The constructor and load() are collective.
class CheckpointReader {
 public:
  /// Opens the file that find_checkpoint(given, best) finds, and looks again where that file has just been removed.
  /// Reads the run state and checks it against its checksum. `communicator` null: this rank alone. Throws InputError
  /// for a file that is not a checkpoint, is damaged, or has another format.
  CheckpointReader(const std::filesystem::path& given, bool best, Communicator* communicator);
  /// The checkpoint of this copy, which rank 0 has and others need not have. `path`: of its file, which need not exist.
  CheckpointReader(const CheckpointCopy* copy, const std::filesystem::path& path, Communicator* communicator);
  CheckpointReader(CheckpointReader&&) noexcept;             ///< takes over the open file
  CheckpointReader& operator=(CheckpointReader&&) noexcept;  ///< takes over the open file
  ~CheckpointReader();

  const std::filesystem::path& path() const;  ///< of the file that was opened
  const RunState& state() const;              ///< without RunState::carried, which load() reads

  /// Sets parameters and moments, which must have memory, and returns the state with RunState::carried. Without
  /// `moments` only parameters are set. Throws InputError, before anything is set, for a checkpoint of another network
  /// (naming the first parameter that differs), of an optimizer with other moments, or with damaged data.
  RunState load(const std::string& network, Parameters& parameters,
                const std::optional<std::vector<std::string>>& moments) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
