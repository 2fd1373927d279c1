#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/train/run_state.hpp"

/// Checkpoints are HDF5 files that h5py opens:
/// - /parameters/<layer>/<weights|bias>: float32, plain: convolution (O, I, D, H, W), dense (out, in). Attribute
/// "names"
///   of /parameters lists the parameters in the network's order.
/// - /optimizer/<moment>/<layer>/<weights|bias>: the same shapes; moments: "momentum" (SGD, LARS) or "m", "v" (Adam,
///   LAMB).
/// - /state/<name>: (global batch, ...): recurrent states, in checkpoints within an epoch.
/// - /texts/<name>: uint8: RunState::texts.
/// - /topology: uint8: RunState::topology. Older files of this format have none.
/// - Attributes of /: the RunState, with "config.<key>" for each of its config.
/// - Attribute "checksum" of each array: 64-bit FNV-1a of its bytes, and of /: of the state and all arrays' checksums.
namespace keelson {

inline constexpr int checkpoint_format = 2;

/// Names of the optimizer's state arrays in checkpoints, in the order of Parameter::moments.
std::vector<std::string> moment_names(const Optimizer& optimizer);

/// Writes the file atomically (engine/base/atomic_file.hpp). By one rank. Throws Error; what was there before is then
/// untouched.
void write_checkpoint(const std::filesystem::path& path, const RunState& state, const Parameters& parameters,
                      const std::vector<std::string>& moments);

/// The run state alone, checked against its checksum. Throws InputError for a file that is no checkpoint, damaged or of
/// a later format.
RunState read_run_state(const std::filesystem::path& path);

/// CheckpointReader(path, false, communicator).load(network, parameters, moments).
RunState load_checkpoint(const std::filesystem::path& path, const std::string& network, Parameters& parameters,
                         const std::optional<std::vector<std::string>>& moments, Communicator* communicator);

/// The checkpoints of one run: step-<n>.h5, the last `keep` of them, and best.h5.
class CheckpointFolder {
 public:
  CheckpointFolder(std::filesystem::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  /// Writes step-<state.step>.h5, then removes all but the last `keep`. Returns its path.
  std::filesystem::path write(const RunState& state, const Parameters& parameters,
                              const std::vector<std::string>& moments) const;
  /// Makes best.h5 another name of this checkpoint.
  void mark_best(const std::filesystem::path& checkpoint) const;
  /// Paths of step-<n>.h5, oldest first.
  std::vector<std::filesystem::path> list() const;
  std::filesystem::path path_of(std::int64_t step) const;
  std::filesystem::path best() const { return folder_ / "best.h5"; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int keep_;
};

/// What --resume and --checkpoint may name: a checkpoint, a run's folder or its checkpoint folder; of a folder the
/// newest, or the best where `best` is set and there is one. Throws InputError where there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& given, bool best);

}  // namespace keelson
