#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// Where the channels of a sample are in its array.
enum class ArrayLayout : std::uint8_t {
  channels_last,   ///< (H, W, C), (D, H, W, C)
  channels_first,  ///< (C, H, W), (C, D, H, W)
  none             ///< (H, W), (D, H, W): the field gets one channel
};

/// A further input of a network, and the array that holds it.
struct InputArray {
  std::string field;  ///< name of the graph's input, "u"
  std::string array;  ///< as ArrayFileOptions::x
};

/// Which arrays a network reads and predicts, and how they hold the samples.
struct ArrayFileOptions {
  /// The array of what the network reads: its name in each file. If the name ends in ".npy", it is a file or a pattern
  /// of files in the folder of the data set.
  std::string x = "x";
  /// What the network reads beside x, for networks with several inputs, e.g. several views of one event. The arrays are
  /// in the files of x and stored as x is, with as many samples; samples may have other extents.
  std::vector<InputArray> inputs = {};
  /// The array of what the network predicts, named likewise; empty: there is none.
  std::string y = "y";
  /// The files that hold y, if these are others than those of x: a file, a folder, or a pattern. The first of them
  /// belongs to the first file of x in the order of their names, and so on. If y is a .npy file: its folder.
  std::string y_path = {};
  /// The dimension that counts the samples, by its name in NetCDF; empty: the first one.
  std::string sample_dimension;
  /// Each file is one sample; no dimension counts samples.
  bool one_per_file = false;
  /// Of samples with three or more dimensions (none: two or more), except classes.
  ArrayLayout layout = ArrayLayout::channels_last;
  /// y are numbers of classes, s32, and have no channels.
  bool classes = false;
  /// Replaces NaN, infinity and missing values of x and `inputs`; no value: these are refused.
  std::optional<float> missing;
  /// x becomes (value - mean) / standard deviation, with a mean and a deviation for each channel: over all elements of
  /// the channel, in all samples. A sample of one dimension has a channel for each element, one of two dimensions a
  /// single channel. Not with `inputs`.
  bool standardise = false;
  /// Used in place of the data's own: one for each channel, in the units of the files. Both, or none.
  std::vector<double> means = {}, deviations = {};
};

/// Whether the array `y` (ArrayFileOptions::y) holds whole numbers, in the first of the files under `path`: those of
/// classes. Throws InputError for files that cannot be read.
bool has_whole_numbers(const std::string& path, const std::string& y);

/// Samples in arrays of files of any form that ArrayFile reads: HDF5, NetCDF, NumPy. Fields: "x" f32, those
/// of ArrayFileOptions::inputs f32, and "y" f32, or with classes s32.
///
/// Each rank opens a share of the files to check that they fit. The 16 files that were read last stay open. Arrays that
/// are not compressed are read without locks, and of a sample only the rows that are asked for.
class ArrayFileDataset final : public Dataset {
 public:
  /// `path`: a file, a folder, or a pattern, as in find_files(); a folder, if x is a .npy file. Throws InputError on
  /// all ranks, naming the file, for arrays that are missing or whose samples differ in shape. `communicator` null: one
  /// rank. Collective.
  /// With `standardise` and without `means`, reads all of x once, each rank a part; the result does not depend on the
  /// number of ranks.
  ArrayFileDataset(const std::string& path, const ArrayFileOptions& options, Communicator* communicator = nullptr);
  /// Reads other files as `like` was read: the same arrays and options; mean and standard deviation are those of
  /// `like`. `y_path`: as in ArrayFileOptions; needed if the files of `like` had one.
  ArrayFileDataset(const std::string& path, const ArrayFileDataset& like, const std::string& y_path = "",
                   Communicator* communicator = nullptr);
  ~ArrayFileDataset() override;

  std::int64_t size() const override;
  const std::vector<Field>& fields() const override;
  /// Throws InputError, naming file and place, for numbers that are not finite and classes that are no whole numbers.
  void read(std::int64_t index, void* const* dst) const override;
  /// Without a transform, reads these rows alone.
  void read_sample(const SampleRequest& request, void* const* dst) const override;
  std::string file_of(std::int64_t index) const override;  ///< of x
  std::int64_t row_of(std::int64_t index) const override;
  std::string describe() const override;
  /// Of x.
  std::optional<ReadCost> read_cost() const override;
  std::uint64_t digest() const override;

  const std::vector<double>& means() const;       ///< of each channel of x; empty if x is not standardised
  const std::vector<double>& deviations() const;  ///< standard deviations of them; 1 for a constant channel

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
