#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::cosmoflow {

/// What happens to a voxel. `log1p`: log(x + 1) (MLPerf HPC); `mean`: x / mean of the sample's chosen channels (SC18
/// paper).
enum class Normalisation : std::uint8_t { none, log1p, mean };

struct UniverseOptions {
  /// Edge of the cubes to yield; must divide the stored edge, and each stored volume is cut into (stored / size)^3
  /// samples that share its targets. 0: as stored for `x`; for `full`, 128 if that divides it, else as stored.
  std::int64_t size = 0;
  std::vector<int> channels;  ///< of those stored, in this order; empty: all
  Normalisation normalisation = Normalisation::log1p;

  std::vector<int> targets;  ///< columns of those stored, in this order; empty: all
  bool physical_targets =
      false;  ///< undo the files' scaling to [-1, 1] (their attributes parameter_minimum and _maximum)
  /// Then y becomes (y - mean) / std, one value per chosen column; empty: left as it is.
  std::vector<float> target_mean, target_std;
};

/// A quantity that the files name as a target: the stored value -1 stands for `minimum`, +1 for `maximum`.
struct UniverseParameter {
  std::string name;  ///< attribute parameter_names, else "y0", "y1", ...
  bool has_range = false;
  double minimum = 0, maximum = 0;
  friend bool operator==(const UniverseParameter&, const UniverseParameter&) = default;
};

/// Simulated universes and the parameters that they were made with, in HDF5: `x` and `y`, one or many samples per file,
/// or the raw `full` and `unitPar` (docs/file-formats.md). Fields: "x" (C, size, size, size) f32, written (D, H, W, C),
/// and "y" (targets) f32.
///
/// Files that hold plain native int16, uint16 or float32 are read without HDF5's lock, so decoding scales with threads.
///
/// Rank 0 lists the files, and each rank opens a share of them. What is found out (names, sizes, targets) is held once
/// per node, in a temporary file without a name that its ranks map: see SharedBytes. A rank's own memory does not grow
/// with the number of files. A file is opened when a sample of it is read, and is then compared with what is known of
/// it; the 16 latest stay open.
class UniverseDataset final : public Dataset {
 public:
  /// `path`: a file, a folder (with those below it) or a pattern such as "data/run-*/x.h5". Every file is opened by one
  /// rank, which checks shapes, types and targets. Throws InputError on all ranks for the first that does not fit, in
  /// order of their names, which is also the order of samples, and for a rank that sees other files. `path` may differ
  /// between ranks that see the same files under different names. `communicator` null: alone. Collective.
  UniverseDataset(const std::string& path, const UniverseOptions& options, Communicator* communicator = nullptr);
  /// The same files, decoded in another way. Opens nothing.
  UniverseDataset(const UniverseDataset& opened, const UniverseOptions& options);
  ~UniverseDataset() override;

  std::int64_t size() const override;
  const std::vector<Field>& fields() const override;
  void read(std::int64_t index, void* const* dst) const override;
  void read_transformed(const SampleId& id, const SampleTransform& transform, void* const* dst) const override;
  /// x, where the files hold int16 or uint16: for no transform and for RandomCubeSymmetry.
  const CodedField* coded(const SampleTransform* transform) const override;
  ops::VoxelSample read_codes(const SampleId& id, const SampleTransform* transform, void* const* dst) const override;
  /// As read(), with x turned by this symmetry of the cube (symmetry.hpp).
  void read_turned(std::int64_t index, int symmetry, void* const* dst) const;
  std::string describe() const override;
  std::uint64_t digest() const override;

  const std::vector<UniverseParameter>& parameters() const;  ///< of the chosen targets
  std::string file_of(std::int64_t index) const;
  std::int64_t stored_size() const;  ///< edge of the volumes in the files

  struct Memory {
    std::int64_t rank = 0;    ///< bytes of this rank alone; does not grow with the number of files
    std::int64_t shared = 0;  ///< bytes that the ranks of the node share: some 40 per file, its name, and the targets
  };
  Memory memory() const;
  std::int64_t files_opened() const;  ///< so far, by this rank

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::cosmoflow
