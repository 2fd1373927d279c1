#include "engine/ops/pixel_loss.hpp"

#include <fmt/ranges.h>

namespace keelson::ops {

TensorDesc PixelLossDesc::target_desc() const {
  Shape shape{prediction.shape[0]};
  for (int i = 2; i < prediction.shape.rank(); ++i) shape.push_back(prediction.shape[i]);
  return TensorDesc::plain(shape, DType::s32);
}

std::string describe(const PixelCountsDesc& d) {
  return fmt::format("pixels of {} classes, target {}", d.classes, to_string(d.target));
}

std::string describe(const PixelLossDesc& d) {
  constexpr std::string_view means[] = {"sum", "mean", "mean over counted pixels"};
  const auto& p = d.params;
  return fmt::format("cross entropy of pixels, prediction {}, {}, class weights {}, factor {}, focal {}, sampled {}",
                     to_string(d.prediction), means[static_cast<int>(p.mean)], p.class_weights, p.factor, p.focal_gamma,
                     p.sampled_pixels);
}

}  // namespace keelson::ops
