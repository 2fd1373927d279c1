#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/stage/file_copies.hpp"

namespace keelson::cosmoflow {

/// The normalisation of voxels. `log1p`: log(x + 1) (MLPerf HPC); `mean`: x / mean of the sample's chosen channels
/// (SC18 paper).
enum class Normalisation : std::uint8_t { none, log1p, mean };

struct UniverseOptions {
  /// Edge of the cubes to yield; must divide the stored edge, and each stored volume is cut into (stored / size)^3
  /// samples that share its targets. 0: as stored for `x`; for `full`, 128 if that divides it, else as stored.
  std::int64_t size = 0;
  std::vector<int> channels;  ///< indices of the stored channels, in this order; empty: all
  Normalisation normalisation = Normalisation::log1p;

  std::vector<int> targets;  ///< indices of stored columns, in this order; empty: all
  bool physical_targets =
      false;  ///< undo the files' scaling to [-1, 1] (their attributes parameter_minimum and _maximum)
  /// If not empty, y becomes (y - mean) / std; one value per chosen column.
  std::vector<float> target_mean, target_std;
  /// Files that may be left out because they cannot be opened, or do not fit the others.
  std::int64_t skip_broken = 0;
  std::shared_ptr<const FileCopies> copies = nullptr;  ///< of the files, near this rank; null: none
};

/// A quantity that the files name as a target: the stored value -1 stands for `minimum`, +1 for `maximum`.
struct UniverseParameter {
  std::string name;  ///< attribute parameter_names, else "y0", "y1", ...
  bool has_range = false;
  double minimum = 0, maximum = 0;
  friend bool operator==(const UniverseParameter&, const UniverseParameter&) = default;
};

/// The files of universes that a path names, as find_files(): HDF5 or TFRecords.
std::vector<std::string> find_universes(const std::string& path);

/// Simulated universes with their parameters, in HDF5: `x` and `y`, one or many samples per file, or the raw `full` and
/// `unitPar`; or in TFRecords, as MLPerf HPC's (docs/file-formats.md). Fields: "x" (C, size, size, size) f32, written
/// (D, H, W, C), and "y" (targets) f32.
///
/// Contiguous int16, uint16 and float32 in this machine's byte order, and most chunks (hdf5.hpp), are read without
/// HDF5's lock, so decoding scales with threads.
///
/// Rank 0 lists the files, and each rank opens a share of them. Names, sizes and targets are kept once per node, in an
/// unnamed temporary file that the node's ranks map (see SharedBytes). A rank's own memory does not grow with the
/// number of files. A file is opened again when a sample of it is read, and is then compared with the facts found
/// before; the last 16 files stay open.
class UniverseDataset final : public Dataset {
 public:
  /// `path`: a file, a folder (including the folders below it) or a pattern such as "data/run-*/x.h5". Samples are in
  /// the order of file names. One rank opens each file and checks shapes, types and targets. Throws InputError on all
  /// ranks, naming the first file that does not fit, or a rank that sees other files. `path` may differ between ranks
  /// that see the same files under different names. `communicator` null: one rank. Collective.
  UniverseDataset(const std::string& path, const UniverseOptions& options, Communicator* communicator = nullptr);
  /// Uses the files of `opened` with other options. Opens no files.
  UniverseDataset(const UniverseDataset& opened, const UniverseOptions& options);
  ~UniverseDataset() override;

  std::int64_t size() const override;
  const std::vector<Field>& fields() const override;
  void read(std::int64_t index, void* const* dst) const override;
  /// Turns x while it is decoded. With rows: reads only these planes of x from the file, unless samples are divided by
  /// their mean, or turned so that all planes are needed.
  void read_sample(const SampleRequest& request, void* const* dst) const override;
  /// Of the field x (CodedVoxels), if the files hold int16 or uint16, and `transform` is null or a RandomCubeSymmetry.
  const FieldEncoding* encoding(const SampleTransform* transform) const override;
  /// The stored form has the voxels as stored, if the files hold int16, uint16 or float32; else the decoded fields.
  bool has_stored_form() const override;
  std::int64_t stored_bytes() const override;
  void read_stored(std::int64_t index, std::byte* dst) const override;
  void decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const override;
  /// As read(), with x turned by this symmetry of the cube (symmetry.hpp).
  void read_turned(std::int64_t index, int symmetry, void* const* dst) const;
  std::string describe() const override;
  std::optional<ReadCost> read_cost() const override;
  std::uint64_t digest() const override;

  const std::vector<UniverseParameter>& parameters() const;  ///< parameters of the chosen targets
  std::int64_t file_number_of(std::int64_t index) const override;
  std::string file_of(std::int64_t index) const override;
  std::int64_t row_of(std::int64_t index) const override;  ///< with cubes: of the universe
  const std::vector<std::string>& broken_files() const;    ///< why files were left out, one text for each
  std::int64_t stored_size() const;                        ///< edge of the volumes in the files
  bool stores_floating_point() const;                      ///< whether the voxels in the files may be NaN or infinite
  std::vector<double> redshifts() const;  ///< of the stored channels, if the first file names them; else empty

  struct Memory {
    std::int64_t rank = 0;    ///< bytes of this rank only; does not grow with the number of files
    std::int64_t shared = 0;  ///< bytes that the ranks of the node share: some 40 per file, its name, and the targets
  };
  Memory memory() const;
  std::int64_t files_opened() const;  ///< by this rank, so far

 private:
  struct Impl;
  void produce(const SampleRequest& request, const std::byte* stored, void* const* dst) const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::cosmoflow
