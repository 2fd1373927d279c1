#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "apps/minerva/data/event_dataset.hpp"
#include "apps/minerva/detector/detector.hpp"

/// Simple rules that find vertices without a network. They know the order of planes and targets.
namespace keelson::minerva {

/// What the rules say about one event.
struct RuleVertex {
  const DetectorLayer* first_plane =
      nullptr;  ///< the most upstream plane with a hit in any view; null: there is no hit
  /// The same, unless what stands just upstream of this plane is a target or the water tank: then that.
  const DetectorLayer* passive = nullptr;
};
RuleVertex rule_vertex(const Detector& detector, const Energies& event);

/// The share of the events for which the rules name the class of the vertex.
struct Baselines {
  double first_plane = 0, passive = 0;
};
/// Reads all events once, each rank a part. Collective.
Baselines measure_baselines(const EventDataset& events, Communicator& world);

}  // namespace keelson::minerva
