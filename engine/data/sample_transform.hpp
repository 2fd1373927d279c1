#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keelson {

class Dataset;
struct Field;

/// Identifies one reading of a sample in training. The random choices of a transform may depend only on these numbers.
struct SampleId {
  std::uint64_t seed = 0;  ///< seed of the run
  std::int64_t epoch = 0;  ///< epoch of the run, from 0
  std::int64_t index = 0;  ///< index in the data set
};

/// A random change of training samples (data augmentation): a rotation, a flip, noise. Callers pass a transform to a
/// Loader or a Trainer. Several threads call the functions at the same time.
///
/// A transform is a pure function of the SampleId and the sample, so results do not depend on threads or ranks, and a
/// resumed run repeats them. Draw with philox (engine/base/philox.hpp), from a stream with the name of the transform.
class SampleTransform {
 public:
  virtual ~SampleTransform() = default;
  /// Throws InputError if the samples of `dataset` cannot be transformed. A Loader calls check() before the first
  /// sample.
  virtual void check(const Dataset& dataset) const = 0;
  /// Changes a decoded sample in place. `sample` has one pointer per field, in the order of `fields`; Dataset::read
  /// describes the order of the values.
  virtual void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const = 0;
  /// Name and settings: "one of the 48 symmetries of the cube". Ranks whose descriptions differ must not train
  /// together.
  virtual std::string describe() const = 0;
};

}  // namespace keelson
