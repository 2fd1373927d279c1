#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/train/checkpoint/run_state.hpp"

/// Checkpoints are HDF5 files that h5py opens:
/// - `/parameters/LAYER/weights`, `/parameters/LAYER/bias`: float32, plain: convolution (O, I, D, H, W), dense (out,
/// in).
///   Attribute "names" of /parameters lists the parameters in the network's order.
/// - `/optimizer/MOMENT/LAYER/weights`: float32, of the same shapes, or of shapes of their own (Shampoo). Moments:
///   "momentum" (SGD, LARS) or "m", "v" (Adam, LAMB), else UpdateRule::state_names(). Not every parameter has every
///   moment.
/// - `/state/NAME`: float32 (global batch, ...): recurrent states, in checkpoints within an epoch.
/// - `/samples/NAME`: float32 (training samples): RunState::of_samples.
/// - `/texts/NAME`: uint8: RunState::texts.
/// - /topology: uint8: RunState::topology. Older files of this format have none.
/// - `/before/parameters/...`, `/before/optimizer/...`, `/topology_before`: the network before its last change
///   (RunState::before).
/// - Attributes of /: the RunState. "config.KEY" is the entry KEY of RunState::config.
/// - Attribute "checksum" of each array: 64-bit FNV-1a of its bytes. Attribute "checksum" of /: of the state and the
///   checksums of all arrays.
namespace keelson {

/// Version of this format: attribute "format_version" of /. Readers refuse files of other versions.
inline constexpr int checkpoint_format = 2;

/// Names of the optimizer's state arrays in checkpoints, in the order of Parameter::moments.
std::vector<std::string> moment_names(const Optimizer& optimizer);

/// The contents of a checkpoint, in memory.
struct CheckpointCopy {
  /// An array of the file.
  struct Array {
    std::string path;           ///< "/parameters/conv1/weights"
    Shape shape;                ///< of the values
    std::vector<float> values;  ///< row-major
  };
  RunState state;                                ///< as the file has it
  std::vector<Array> arrays;                     ///< of parameters, then of moments
  std::vector<std::string> parameters, moments;  ///< names, in the order of the arrays
  std::vector<std::string> statistics;           ///< names of those parameters that are statistics
  bool best = false;                             ///< best.h5 shall be this checkpoint
};

/// Copies a run. `moments`: moment_names(). Throws Error, with the place, for a value that is not finite. Called by one
/// rank. If arrays are in parts or shards (Parameters::are_spread): collective over `ranks`, all ranks of the training,
/// and only rank 0 gets the copy; the arrays of the others are empty.
CheckpointCopy copy_run(const RunState& state, const Parameters& parameters, const std::vector<std::string>& moments,
                        Communicator* ranks = nullptr);

/// Writes the file atomically (engine/base/atomic_file.hpp): a file of this name is replaced as a whole or, if
/// writing fails and throws Error, stays as it was. `progress`, if not empty, is called each time when the disk has
/// taken another part of the file. Called by one rank; by any thread.
void write_checkpoint(const std::filesystem::path& path, const CheckpointCopy& copy,
                      const std::function<void()>& progress = {});

/// Reads the run state alone and checks it against its checksum. Throws InputError for a file that is not a checkpoint,
/// is damaged, or has another format.
RunState read_run_state(const std::filesystem::path& path);

/// CheckpointReader(path, false, communicator).load(network, parameters, moments).
RunState load_checkpoint(const std::filesystem::path& path, const std::string& network, Parameters& parameters,
                         const std::optional<std::vector<std::string>>& moments, Communicator* communicator);

/// The checkpoints of one run: step-N.h5 after N steps (N of ten digits or more), the last `keep` of them, and best.h5.
/// Files of other names are not of the run.
class CheckpointFolder {
 public:
  /// Does not touch the file system. `keep`: number of the latest checkpoints to keep.
  CheckpointFolder(std::filesystem::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  /// Writes path_of(copy.state.step), makes this best.h5 too if copy.best, and removes all but the last `keep`
  /// checkpoints up to this step. Returns the path. `progress` and errors as in write_checkpoint(). May be called by
  /// any thread.
  std::filesystem::path write(const CheckpointCopy& copy, const std::function<void()>& progress = {}) const;
  /// Paths of the step-N.h5 in the folder, oldest first.
  std::vector<std::filesystem::path> list() const;
  std::filesystem::path path_of(std::int64_t step) const;             ///< of step-N.h5, whether it exists or not
  std::filesystem::path best() const { return folder_ / "best.h5"; }  ///< whether it exists or not
  const std::filesystem::path& folder() const { return folder_; }     ///< as given

  /// Makes room for a run that goes on from the checkpoint of `from` in this folder: checkpoints of later steps,
  /// best.h5 too if that is of a later step, move into a new folder abandoned-N in this one. best.h5 becomes the best
  /// checkpoint of the steps before again, if that is still there. `from` null: for a new run, so all checkpoints move.
  /// Returns the new folder; empty: there was nothing to move. Throws Error if that fails.
  std::filesystem::path set_aside(const RunState* from) const;

 private:
  std::map<std::int64_t, std::filesystem::path> by_step() const;
  void restore_best(const RunState& from) const;

  std::filesystem::path folder_;
  int keep_;
};

/// The checkpoint that --resume and --checkpoint name. `given`: a checkpoint, a run's folder, or a run's checkpoint
/// folder. Of a folder the newest checkpoint is taken, or with `best` best.h5, if there is one. Throws InputError if
/// there is no checkpoint.
std::filesystem::path find_checkpoint(const std::filesystem::path& given, bool best);

}  // namespace keelson
