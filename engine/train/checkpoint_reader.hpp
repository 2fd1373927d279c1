#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/train/run_state.hpp"

namespace keelson {

/// A checkpoint that is open for reading. What happens to its name meanwhile does no harm: a run that goes on removes
/// its older checkpoints. Rank 0 of the communicator reads, the others get what it has read; InputError is thrown on
/// all ranks alike. Collective calls: the constructor and load().
class CheckpointReader {
 public:
  /// Opens what find_checkpoint(given, best) finds, and the newest again where that has just been removed. Reads the
  /// run state and checks it against its checksum. `communicator` null: alone. Throws InputError for a file that is no
  /// checkpoint, damaged, or of another format.
  CheckpointReader(const std::filesystem::path& given, bool best, Communicator* communicator);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const std::filesystem::path& path() const;
  const RunState& state() const;  ///< without RunState::carried

  /// Sets parameters and moments (which plans must have materialised) and returns the state with RunState::carried.
  /// Throws InputError, before anything is set, for a checkpoint of another network, naming the first parameter that
  /// differs, of an optimizer with other moments, or with damaged data. No `moments`: parameters only.
  RunState load(const std::string& network, Parameters& parameters,
                const std::optional<std::vector<std::string>>& moments) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
