#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/train/metrics/metric.hpp"

namespace keelson::ensemble {

/// The points of a sample (rows, words or pixels) of which a network predicts the class. Logits of a sample are (rows,
/// classes) with a true class s32 for each row, or (1, classes, pixels...) with one for each pixel.
class ClassPoints {
 public:
  ClassPoints() = default;  ///< no points
  /// Throws InputError, naming the field or the output, for a target that is no class, and for other logits.
  explicit ClassPoints(const MetricSetup& setup);

  std::int64_t classes() const { return classes_; }               ///< that the network tells apart
  std::int64_t points() const { return points_; }                 ///< of a sample
  std::int64_t logits() const { return points_ * classes_; }      ///< of a sample
  std::ptrdiff_t stride() const { return rows_ ? 1 : points_; }   ///< between the logits of a point
  std::int64_t first(std::int64_t n, std::int64_t point) const {  ///< index of the first logit of a point of
    return n * logits() + point * (rows_ ? classes_ : 1);         ///< sample n of a batch
  }
  /// The true class of a point of sample n of a batch whose fields these are; -1: it does not count. `index`: the
  /// sample's number in the data set. Throws InputError, naming the sample, for a class that the network does not have.
  std::int32_t truth(const void* targets, std::int64_t n, std::int64_t point, std::int64_t index) const;

 private:
  std::string data_;
  std::int64_t classes_ = 0, points_ = 0;
  bool rows_ = true;
};

}  // namespace keelson::ensemble
