#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

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

  /// A set of axes: `{Axis::data, Axis::space}`, or one axis.
  class Axes {
   public:
    /// One axis.
    constexpr Axes(Axis axis) : bits_(bit(axis)) {}  // NOLINT(google-explicit-constructor): a set of one
    /// These axes, in any order.
    constexpr Axes(std::initializer_list<Axis> list) {
      for (const Axis axis : list) bits_ |= bit(axis);
    }
    constexpr void add(Axis axis) { bits_ |= bit(axis); }  ///< puts an axis into the set
    /// The set without this axis.
    constexpr Axes without(Axis axis) const {
      Axes others = *this;
      others.bits_ &= ~bit(axis);
      return others;
    }
    constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }  ///< whether the axis is in the set
    constexpr bool empty() const { return bits_ == 0; }                            ///< whether no axis is in the set
    /// The last of the axes in their order, which varies slowest. Not for an empty set.
    constexpr Axis last() const { return static_cast<Axis>(std::bit_width(bits_) - 1); }
    constexpr auto operator<=>(const Axes&) const = default;  ///< any order, for maps

   private:
    static constexpr unsigned bit(Axis axis) { return 1u << static_cast<unsigned>(axis); }
    unsigned bits_ = 0;
  };
  /// "data and space".
  static std::string to_string(Axes of);

  /// Ranks along each axis.
  struct Extents {
    int data = 0;      ///< 0: all ranks that the other axes leave
    int space = 1;     ///< parts of one sample: rows x columns
    int columns = 1;   ///< of space: parts along the second spatial dimension; divides space
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
  /// A grid without a communicator, as rank number `rank` of the grid sees it: extents and coordinates, to make plans
  /// without the other ranks. An executor of such a plan is refused where the plan communicates. Throws InputError for
  /// extents that are not positive, and for a rank that the grid does not have.
  ProcessGrid(const Extents& extents, int rank);

  int extent(Axes of) const;  ///< ranks along these axes: the product of their extents
  int coordinate(Axis axis) const { return coordinates_[index(axis)]; }  ///< of this rank, from 0
  int number(Axes of) const;  ///< of this rank among the ranks along these axes, from 0: its rank in along(of)

  bool has_ranks() const { return world_ != nullptr; }  ///< whether the grid was made with a communicator
  /// All ranks of the grid. Throws Error for a grid without a communicator.
  Communicator& world() const;
  /// The ranks that differ from this rank in the coordinates on these axes alone. They are numbered with the first
  /// axis, in the order of ProcessGrid::axes, varying fastest; along one axis, by their coordinate. Null where this
  /// rank is alone.
  ///
  /// `size` > 0: these ranks are cut into groups of `size` neighbours along the last of the axes, and this is the group
  /// of this rank. The last group is smaller where `size` does not divide the extent of that axis.
  ///
  /// The first call for a set of several axes, or for a size, makes the groups by Communicator::split(), and the grid
  /// keeps them. So all ranks of the grid make the same calls in the same order, in no other thread at the same time.
  /// Throws Error for a size below 0, and for a grid without a communicator.
  Communicator* along(Axes of, int size = 0) const;

  /// The rank in along(axis) at a distance of `distance`, or -1 beyond the edge: a peer for send and receive. With
  /// `periodic`, the axis is a ring without edge.
  int neighbor(Axis axis, int distance, bool periodic = false) const;

  /// The extents of a grid in the words of describe(): "data 4 x space 2". An axis that is not named has one rank, and
  /// data, if it is not named, the ranks that the others leave. Throws InputError for other texts.
  static Extents parse(const std::string& text);
  /// Extents::space and Extents::columns of "4" or "4x2" parts of a sample. Throws InputError for other texts.
  static Extents parse_blocks(const std::string& text);
  /// "data 4 x space 2", "data 4 x space 2x2"; without axes of one rank, except data.
  std::string describe() const;
  int columns() const { return columns_; }                     ///< Extents::columns
  int rows() const { return extent(Axis::space) / columns_; }  ///< parts along the first spatial dimension

 private:
  static constexpr std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }
  /// Product of the extents but that of data. Throws InputError for an extent that is not positive.
  std::int64_t other_extents(bool may_leave_data_out) const;
  void place(int rank);
  int first_of(Axes of) const;  ///< rank in the world of the first rank of along(of)

  Communicator* world_ = nullptr;
  int columns_ = 1;
  std::array<int, axes.size()> extents_{}, coordinates_{};
  /// Groups that are parts of the world, by axes and size, made when they are first asked for.
  mutable std::map<std::pair<Axes, int>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace keelson
