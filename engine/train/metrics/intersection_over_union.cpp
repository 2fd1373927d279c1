#include "engine/train/metrics/intersection_over_union.hpp"

#include <cmath>

#include "engine/base/error.hpp"

namespace keelson {

void ConfusionMatrix::add(const ConfusionMatrix& other) {
  KEELSON_EXPECT(other.classes_ == classes_);
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i] += other.cells_[i];
}

void ConfusionMatrix::reduce(Communicator* communicator) {
  if (communicator) communicator->allreduce(cells_.data(), cells_.size(), Reduction::sum);
}

std::int64_t ConfusionMatrix::union_of(std::int64_t k) const {
  std::int64_t n = -intersection(k);
  for (std::int64_t other = 0; other < classes_; ++other) n += (*this)(k, other) + (*this)(other, k);
  return n;
}

double ConfusionMatrix::iou(std::int64_t k, double absent) const {
  const std::int64_t n = union_of(k);
  return n == 0 ? absent : static_cast<double>(intersection(k)) / static_cast<double>(n);
}

double mean_iou(const ConfusionMatrix& confusion) {
  double sum = 0;
  std::int64_t classes = 0;
  for (std::int64_t k = 0; k < confusion.classes(); ++k) {
    if (confusion.union_of(k) == 0) continue;
    sum += confusion.iou(k, 0);
    ++classes;
  }
  return classes == 0 ? std::nan("") : sum / static_cast<double>(classes);
}

void ImageIoU::add(const ConfusionMatrix& image) {
  KEELSON_EXPECT(static_cast<std::size_t>(image.classes()) + 2 == sums_.size());
  double mean = 0;
  for (std::int64_t k = 0; k < image.classes(); ++k) {
    const double iou = image.iou(k, 1);
    sums_[static_cast<std::size_t>(k)].add(iou);
    mean += iou / static_cast<double>(image.classes());
  }
  sums_[sums_.size() - 2].add(mean);
  sums_.back().add(1);
}

void ImageIoU::reduce(Communicator* communicator) { ExactSum::reduce(sums_, communicator); }

std::vector<double> ImageIoU::of_classes() const {
  std::vector<double> means;
  for (std::size_t k = 0; k + 2 < sums_.size(); ++k) means.push_back(sums_[k].value() / images());
  return means;
}

void SegmentationMetric::reset(const MetricSetup& setup) {
  data_ = setup.data;
  pixels_ = setup.target.shape.elements();
  if (setup.target.dtype != DType::s32) {
    refuse("the field {} of {} holds {}. Expected s32, the class of each pixel", setup.target.name, setup.data,
           to_string(setup.target.dtype));
  }
  const auto& p = setup.prediction;
  const std::int64_t classes = p.rank() > 1 ? p[1] : 0;  // after the samples
  if (classes < 2 || p[0] != 1 || p.elements() != classes * pixels_) {
    refuse(
        "the network's {} of a sample is {}, but a sample of {} has {} pixels. Expected a logit for each class and "
        "pixel",
        setup.prediction_name, to_string(p), setup.data, pixels_);
  }
  if (!names_.empty() && static_cast<std::int64_t>(names_.size()) != classes)
    refuse("{} classes are named, but the network's {} has {}", names_.size(), setup.prediction_name, classes);
  confusion_ = ConfusionMatrix(classes);
}

void SegmentationMetric::update(const MetricBatch& batch) {
  const std::int64_t classes = confusion_.classes();
  for (std::int64_t n = 0; n < batch.count; ++n) {
    image_ = ConfusionMatrix(classes);
    const float* logits = batch.predictions + n * classes * pixels_;
    const auto* truth = static_cast<const std::int32_t*>(batch.targets) + n * pixels_;
    for (std::int64_t i = 0; i < pixels_; ++i) {
      if (truth[i] < 0 || truth[i] >= classes) {
        refuse("sample {} of {} has a pixel of class {}. Expected 0 to {}, the classes of the network",
               batch.indices[n], data_, truth[i], classes - 1);
      }
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < classes; ++k)
        if (logits[k * pixels_ + i] > logits[best * pixels_ + i]) best = k;
      image_.add(truth[i], best);
    }
    confusion_.add(image_);
    add_image(image_);
  }
}

void SegmentationMetric::reduce(Communicator* communicator) { confusion_.reduce(communicator); }

void MeanImageIoU::reset(const MetricSetup& setup) {
  SegmentationMetric::reset(setup);
  iou_ = ImageIoU(confusion().classes());
}

void MeanImageIoU::reduce(Communicator* communicator) {
  SegmentationMetric::reduce(communicator);
  iou_.reduce(communicator);
}

double PooledIoU::value() const { return mean_iou(confusion()); }

std::vector<double> PooledIoU::values() const {
  std::vector<double> of_classes;
  for (std::int64_t k = 0; k < confusion().classes(); ++k) of_classes.push_back(confusion().iou(k, std::nan("")));
  return of_classes;
}

}  // namespace keelson
