#include "engine/ensemble/class_points.hpp"

#include "engine/base/error.hpp"

namespace keelson::ensemble {

ClassPoints::ClassPoints(const MetricSetup& setup) : data_(setup.data), points_(setup.target.shape.elements()) {
  const Shape& p = setup.prediction;
  if (setup.target.dtype != DType::s32)
    refuse("the field {} of {} holds {}. Expected s32, the class of each prediction", setup.target.name, setup.data,
           to_string(setup.target.dtype));
  classes_ = p.rank() > 1 ? p[1] : 0;
  if (classes_ < 2 || p.elements() != classes_ * points_ || (p[0] != points_ && p[0] != 1))
    refuse("the network's {} of a sample is {}, but a sample of {} has {} true classes. Expected logits for each",
           setup.prediction_name, to_string(p), setup.data, points_);
  rows_ = p[0] == points_ && p.rank() == 2;
}

std::int32_t ClassPoints::truth(const void* targets, std::int64_t n, std::int64_t point, std::int64_t index) const {
  const auto truth = static_cast<const std::int32_t*>(targets)[n * points_ + point];
  if (truth < -1 || truth >= classes_)
    refuse("sample {} of {} has the class {}. Expected 0 to {}, the classes of the network", index, data_, truth,
           classes_ - 1);
  return truth;
}

}  // namespace keelson::ensemble
