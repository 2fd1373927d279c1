#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson {

/// How many pixels of each true class were predicted to be of each class.
class ConfusionMatrix {
 public:
  ConfusionMatrix() = default;  ///< no classes
  /// Without pixels.
  explicit ConfusionMatrix(std::int64_t classes)
      : classes_(classes), cells_(static_cast<std::size_t>(classes * classes)) {}

  /// Number of classes.
  std::int64_t classes() const { return classes_; }
  /// Pixels of the class `truth` that were predicted to be of the class `predicted`.
  std::int64_t operator()(std::int64_t truth, std::int64_t predicted) const {
    return cells_[static_cast<std::size_t>(truth * classes_ + predicted)];
  }
  /// Counts pixels, by default one.
  void add(std::int64_t truth, std::int64_t predicted, std::int64_t count = 1) {
    cells_[static_cast<std::size_t>(truth * classes_ + predicted)] += count;
  }
  /// Adds the pixels of another matrix with as many classes.
  void add(const ConfusionMatrix& other);
  /// Adds up the ranks' matrices, on all ranks. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);

  /// Pixels that are of this class and were predicted to be (TP).
  std::int64_t intersection(std::int64_t k) const { return (*this)(k, k); }
  /// Pixels that are of this class or were predicted to be (TP + FP + FN).
  std::int64_t union_of(std::int64_t k) const;
  /// intersection / union of this class; `absent` if the union is empty.
  double iou(std::int64_t k, double absent) const;

 private:
  std::int64_t classes_ = 0;
  std::vector<std::int64_t> cells_;  ///< (truth, predicted)
};

/// Intersection over union image by image: 1 for a class that neither is in the image nor was predicted; then the mean
/// over images. The sums are exact, so they depend neither on the order of the images nor on which rank adds which.
class ImageIoU {
 public:
  ImageIoU() = default;  ///< no classes
  /// Without images.
  explicit ImageIoU(std::int64_t classes) : sums_(static_cast<std::size_t>(classes) + 2) {}
  /// Adds an image, with its pixels alone.
  void add(const ConfusionMatrix& image);
  /// Adds up the ranks' sums, on all ranks. Call it once. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);
  /// Number of images.
  double images() const { return sums_.back().value(); }
  /// Mean over the images of the mean over the classes; NaN without images.
  double mean() const { return sums_[sums_.size() - 2].value() / images(); }
  /// Of each class, the mean over images.
  std::vector<double> of_classes() const;

 private:
  std::vector<ExactSum> sums_;  ///< per class, then the images' means, then the number of images
};

/// Reads logits (1, classes, pixels...) of each sample and true classes (pixels...) s32, pixel by pixel, and counts.
/// The predicted class is that of the largest logit, of equal ones the first. Memory: a few matrices, whatever the
/// number of samples.
class SegmentationMetric : public Metric {
 public:
  bool higher_is_better() const override { return true; }
  std::vector<std::string> value_names() const override { return names_; }
  /// Throws InputError for true classes that are not s32, or a prediction that has not one logit per class and pixel.
  void reset(const MetricSetup& setup) override;
  /// Throws InputError, naming the sample, for a true class that the network does not have.
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;

  /// Of all pixels of all samples: of this rank's until reduce().
  const ConfusionMatrix& confusion() const { return confusion_; }

 protected:
  /// `names`: of the classes, for reports; may be empty.
  explicit SegmentationMetric(std::vector<std::string> names) : names_(std::move(names)) {}
  /// Called for each sample, with its pixels alone.
  virtual void add_image(const ConfusionMatrix& /*image*/) {}

 private:
  std::vector<std::string> names_;
  std::string data_;
  std::int64_t pixels_ = 0;
  ConfusionMatrix image_, confusion_;
};

/// The metric of MLPerf HPC's DeepCAM: ImageIoU. values(): of each class, the mean over images.
class MeanImageIoU final : public SegmentationMetric {
 public:
  /// `classes`: their names, for reports; may be empty.
  explicit MeanImageIoU(std::vector<std::string> classes = {}) : SegmentationMetric(std::move(classes)) {}
  std::string name() const override { return "mean IoU per image"; }
  void reset(const MetricSetup& setup) override;
  void reduce(Communicator* communicator) override;
  double value() const override { return iou_.mean(); }
  std::vector<double> values() const override { return iou_.of_classes(); }

 private:
  void add_image(const ConfusionMatrix& image) override { iou_.add(image); }
  ImageIoU iou_;
};

/// The metric of the SC18 paper (Kurth et al., "Exascale Deep Learning for Climate Analytics"): intersection over union
/// of one confusion matrix over all pixels of all samples; the mean is over the classes that occur, in truth or
/// prediction. The paper's code makes a matrix for each rank and averages the ranks' means, which depends on the number
/// of ranks and on which rank has which sample; here the matrix is that of all samples. values(): of each class, NaN
/// for one that does not occur.
class PooledIoU final : public SegmentationMetric {
 public:
  /// `classes`: their names, for reports; may be empty.
  explicit PooledIoU(std::vector<std::string> classes = {}) : SegmentationMetric(std::move(classes)) {}
  std::string name() const override { return "mean IoU over all pixels"; }
  double value() const override;
  std::vector<double> values() const override;
};

/// Mean over the classes that occur of their intersection over union; NaN without any pixel.
double mean_iou(const ConfusionMatrix& confusion);

}  // namespace keelson
