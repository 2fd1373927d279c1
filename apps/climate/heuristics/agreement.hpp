#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/climate/heuristics/labels.hpp"
#include "engine/base/communicator.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson::climate {

/// How far labels agree with the truth.
struct Agreement {
  ConfusionMatrix pixels{kClasses};  ///< over all snapshots together
  ImageIoU images{kClasses};         ///< snapshot by snapshot

  /// Adds a snapshot.
  void add(std::span<const std::int32_t> truth, std::span<const std::int32_t> labels);
  /// Adds up the counts of all ranks; all ranks get the result. Call it once. Collective.
  void reduce(Communicator& world);
};

/// An intersection over union as text; "-" for a class that does not occur (NaN).
std::string iou_text(double iou);

/// Labels the snapshots under `path` by the heuristics with default thresholds, and compares with their labels `map`.
/// All ranks get the same result, which does not depend on their number. Throws InputError for snapshots without all 16
/// channels. Collective.
Agreement heuristics_agreement(const std::string& path, int map, Communicator& world);

}  // namespace keelson::climate
