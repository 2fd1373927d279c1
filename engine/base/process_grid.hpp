#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson {

/// The ranks of a job as a grid. Each axis stands for one way to divide the work. Every rank has one coordinate on each
/// axis. The ranks along an axis are those that have the same coordinates as this rank on all other axes.
///
/// Ranks are numbered with the axes in this order, the first varying fastest:
/// 1. channel: the layers' channels. Ranks exchange activations in every layer.
/// 2. space: parts of the samples. Ranks exchange their edges in every layer.
/// 3. data: samples of the batch. Ranks sum gradients once per step.
/// 4. stage: groups of layers. A rank sends one activation per part of the batch to the next stage.
/// 5. ensemble: independent networks, which exchange almost nothing.
/// Launchers give consecutive ranks to a node, so that the ranks that exchange most are on one node.
class ProcessGrid {
 public:
  /// The axes by name.
  enum class Axis : std::uint8_t { channel, space, data, stage, ensemble };  ///< fastest first
  /// All axes, in their order.
  static constexpr std::array axes{Axis::channel, Axis::space, Axis::data, Axis::stage, Axis::ensemble};
  /// The name of an axis: "data".
  static const char* name(Axis axis);

  /// Ranks along each axis.
  struct Extents {
    int data = 0;      ///< 0: all ranks that the other axes leave
    int space = 1;     ///< parts of the spatial dims of one sample
    int channel = 1;   ///< parts of the channels of a layer
    int stage = 1;     ///< parts of a network, one after the other
    int ensemble = 1;  ///< members
  };

  /// Makes the groups of the axes by Communicator::split(). An axis of one rank has no group, and the group of an axis
  /// of all ranks is `world`. Collective. `world` must outlive the grid. Throws InputError on all ranks if the extents
  /// differ between ranks, are not positive, or have another product than world.size().
  ProcessGrid(Communicator& world, const Extents& extents);
  /// A grid with all ranks along the data axis.
  explicit ProcessGrid(Communicator& world) : ProcessGrid(world, Extents{}) {}

  int extent(Axis axis) const { return extents_[index(axis)]; }          ///< ranks along the axis
  int coordinate(Axis axis) const { return coordinates_[index(axis)]; }  ///< of this rank, from 0

  Communicator& world() const { return *world_; }  ///< all ranks of the grid
  /// The ranks along `axis`, numbered by their coordinate; null if this rank is the only one.
  Communicator* along(Axis axis) const { return groups_[index(axis)]; }
  /// This rank's group if the ranks along `axis` are divided into groups of `size` neighbours. The last group has fewer
  /// ranks if `size` does not divide the number of ranks. Size 0: along(axis). Null if this rank is alone in its group.
  /// The first call for a size makes the groups by Communicator::split(), and the grid keeps them. So all ranks along
  /// the axis must make the calls with the same sizes in the same order, and not in two threads at a time. Throws Error
  /// for a size below 0.
  Communicator* along(Axis axis, int size) const;

  /// The rank in along(axis) at a distance of `distance`, or -1 beyond the edge: a peer for send and receive. With
  /// `periodic`, the axis is a ring without edge.
  int neighbor(Axis axis, int distance, bool periodic = false) const;

  std::string describe() const;  ///< "data 4 x space 2"; without axes of one rank, except data

 private:
  static constexpr std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }

  Communicator* world_;
  std::array<int, axes.size()> extents_{}, coordinates_{};
  std::array<Communicator*, axes.size()> groups_{};
  std::array<std::unique_ptr<Communicator>, axes.size()> owned_;  ///< groups that are parts of the world
  /// Groups of neighbours by axis and size, made at the first request.
  mutable std::map<std::pair<Axis, int>, std::unique_ptr<Communicator>> neighbors_;
};

}  // namespace keelson
