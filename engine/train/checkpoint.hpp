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
/// - `/parameters/LAYER/weights`, `/parameters/LAYER/bias`: float32, plain: convolution (O, I, D, H, W), dense (out,
/// in).
///   Attribute "names" of /parameters lists the parameters in the network's order.
/// - `/optimizer/MOMENT/LAYER/weights`: float32, of the same shapes. Moments: "momentum" (SGD, LARS) or "m", "v" (Adam,
///   LAMB).
/// - `/state/NAME`: float32 (global batch, ...): recurrent states, in checkpoints within an epoch.
/// - `/texts/NAME`: uint8: RunState::texts.
/// - /topology: uint8: RunState::topology. Older files of this format have none.
/// - Attributes of /: the RunState. "config.KEY" is the entry KEY of RunState::config.
/// - Attribute "checksum" of each array: 64-bit FNV-1a of its bytes. Attribute "checksum" of /: of the state and the
///   checksums of all arrays.
namespace keelson {

/// Version of this format: attribute "format_version" of /. Readers refuse files of other versions.
inline constexpr int checkpoint_format = 2;

/// Names of the optimizer's state arrays in checkpoints, in the order of Parameter::moments.
std::vector<std::string> moment_names(const Optimizer& optimizer);

/// Writes the file atomically (engine/base/atomic_file.hpp): a file of this name is replaced as a whole or, where
/// writing fails and throws Error, stays as it was. `moments`: moment_names(). Called by one rank.
void write_checkpoint(const std::filesystem::path& path, const RunState& state, const Parameters& parameters,
                      const std::vector<std::string>& moments);

/// Reads the run state alone and checks it against its checksum. Throws InputError for a file that is not a checkpoint,
/// is damaged, or has another format.
RunState read_run_state(const std::filesystem::path& path);

/// CheckpointReader(path, false, communicator).load(network, parameters, moments).
RunState load_checkpoint(const std::filesystem::path& path, const std::string& network, Parameters& parameters,
                         const std::optional<std::vector<std::string>>& moments, Communicator* communicator);

/// The checkpoints of one run: step-N.h5 after N steps, the last `keep` of them, and best.h5.
class CheckpointFolder {
 public:
  /// Does not touch the file system. `keep`: number of the latest checkpoints to keep.
  CheckpointFolder(std::filesystem::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  /// Writes path_of(state.step), then removes all but the last `keep` checkpoints. Returns the path. Throws as
  /// write_checkpoint().
  std::filesystem::path write(const RunState& state, const Parameters& parameters,
                              const std::vector<std::string>& moments) const;
  /// Makes best.h5 another name of this checkpoint.
  void mark_best(const std::filesystem::path& checkpoint) const;
  /// Paths of the step-N.h5 in the folder, oldest first.
  std::vector<std::filesystem::path> list() const;
  std::filesystem::path path_of(std::int64_t step) const;             ///< of step-N.h5, whether it exists or not
  std::filesystem::path best() const { return folder_ / "best.h5"; }  ///< whether it exists or not
  const std::filesystem::path& folder() const { return folder_; }     ///< as given

 private:
  std::filesystem::path folder_;
  int keep_;
};

/// The checkpoint that --resume and --checkpoint name. `given`: a checkpoint, a run's folder, or a run's checkpoint
/// folder. Of a folder the newest checkpoint is taken, or with `best` best.h5, if there is one. Throws InputError where
/// there is no checkpoint.
std::filesystem::path find_checkpoint(const std::filesystem::path& given, bool best);

}  // namespace keelson
