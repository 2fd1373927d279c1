#include "apps/climate/heuristics/agreement.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::climate {

void Agreement::add(std::span<const std::int32_t> truth, std::span<const std::int32_t> labels) {
  ConfusionMatrix image(kClasses);
  for (std::size_t i = 0; i < truth.size(); ++i) image.add(truth[i], labels[i]);
  pixels.add(image);
  images.add(image);
}

void Agreement::reduce(Communicator& world) {
  pixels.reduce(&world);
  images.reduce(&world);
}

std::string iou_text(double iou) { return std::isnan(iou) ? "-" : fmt::format("{:.4f}", iou); }

Agreement heuristics_agreement(const std::string& path, int map, Communicator& world) {
  const SnapshotDataset data(path, {.labels = map}, &world);
  const Grid grid{static_cast<int>(data.layout().rows), static_cast<int>(data.layout().columns)};
  Agreement agreement;
  on_each_rank(&world, [&] {
    std::vector<float> x(static_cast<std::size_t>(grid.points()) * kChannels);
    std::vector<std::int32_t> truth(static_cast<std::size_t>(grid.points()));
    for (std::int64_t i = world.rank(); i < data.size(); i += world.size()) {
      void* const dst[] = {x.data(), truth.data()};
      data.read(i, dst);
      agreement.add(truth, heuristic_labels({grid, x}, {}));
    }
  });
  agreement.reduce(world);
  return agreement;
}

}  // namespace keelson::climate
