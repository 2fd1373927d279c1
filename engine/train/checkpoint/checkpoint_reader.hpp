#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/tensor/shape.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson {

/// A checkpoint that is open for reading: a file, or a copy in memory. The file stays readable when a run that
/// continues removes its older checkpoints meanwhile. Rank 0 of the communicator reads the file and sends the contents
/// to the other ranks. InputError is thrown on all ranks. The constructor, check() and load() are collective.
class CheckpointReader {
 public:
  /// Opens the file that find_checkpoint(given, best) finds, and looks again if that file has just been removed.
  /// Reads the run state and checks it against its checksum. `communicator` null: this rank alone. Throws InputError
  /// for a file that is not a checkpoint, is damaged, or has another format.
  CheckpointReader(const std::filesystem::path& given, bool best, Communicator* communicator);
  /// The checkpoint of this copy, which rank 0 has and others need not have. `path`: of its file, which need not exist.
  CheckpointReader(const CheckpointCopy* copy, const std::filesystem::path& path, Communicator* communicator);
  CheckpointReader(CheckpointReader&&) noexcept;             ///< takes over the open file
  CheckpointReader& operator=(CheckpointReader&&) noexcept;  ///< takes over the open file
  ~CheckpointReader();

  const std::filesystem::path& path() const;  ///< of the file that was opened
  const RunState& state() const;              ///< without carried and of_samples, which load() reads

  /// Throws InputError for a checkpoint of another network (naming the first parameter that differs), of an optimizer
  /// with other moments, with other recurrent states than `states` (name and shape, of all ranks), or with damaged
  /// data. Without `moments` those do not matter. Sets nothing, and `parameters` need no memory, but the shapes of
  /// their moments (set_own_shapes(), where the optimizer has such).
  void check(const std::string& network, const Parameters& parameters,
             const std::optional<std::vector<std::string>>& moments,
             const std::map<std::string, Shape>& states = {}) const;
  /// check(), without `states`; then sets parameters and moments, which must have memory, and returns the state with
  /// RunState::carried. Without `moments` only parameters are set.
  RunState load(const std::string& network, Parameters& parameters,
                const std::optional<std::vector<std::string>>& moments) const;
  /// The same if check() has accepted these parameters and moments.
  RunState load_checked(Parameters& parameters, const std::vector<std::string>& moments) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
