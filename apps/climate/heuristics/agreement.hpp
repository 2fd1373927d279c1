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
  ConfusionMatrix pixels{kClasses};  ///< of all snapshots
  ImageIoU images{kClasses};         ///< snapshot by snapshot

  /// Adds a snapshot.
  void add(std::span<const std::int32_t> truth, std::span<const std::int32_t> labels);
  /// Adds up what the ranks have, on all ranks. Call it once. Collective.
  void reduce(Communicator& world);
};

/// An intersection over union for people; "-" for a class that does not occur (NaN).
std::string iou_text(double iou);

/// Labels the snapshots under `path` by the heuristics, as they are by default, and compares with their labels `map`.
/// The same on all ranks, whatever their number. Throws InputError for snapshots without all 16 channels. Collective.
Agreement heuristics_agreement(const std::string& path, int map, Communicator& world);

}  // namespace keelson::climate
