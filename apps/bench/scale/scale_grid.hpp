#pragma once

#include <string>
#include <vector>

namespace keelson::bench {

/// A process grid as the simulator knows it. Ranks are numbered as in ProcessGrid: space varies fastest, then data,
/// then stage. Along space, the last dimension varies fastest.
struct ScaleGrid {
  int data = 0;                 ///< replicas; 0: all ranks that the other axes leave
  std::vector<int> space = {};  ///< parts of a sample along its first spatial dimensions; empty: whole samples
  int stages = 1;               ///< parts of the network, one after the other
  int micro_batches = 0;        ///< passes in which a replica computes its samples; 0: 4 x stages, at most the samples

  int parts() const;                                    ///< ranks along space
  int replica() const { return parts() * stages; }      ///< ranks that hold one copy of the network
  int ranks() const { return data * replica(); }        ///< all
  bool is_data_only() const { return replica() == 1; }  ///< whether each rank is a replica
  /// The same grid for so many ranks. Throws InputError where the grid does not use them up.
  ScaleGrid for_ranks(int ranks) const;
  /// "data 512 x space 4x4", as ProcessGrid::describe().
  std::string describe() const;
};

/// The parts that --spatial names: "4", or "4x2". Throws InputError.
std::vector<int> parse_parts(const std::string& text);

/// A grid in the words of ScaleGrid::describe(): "data 512 x space 4x4 x stage 2"; an axis that is left out has one
/// rank, or, for data, all ranks that the others leave. Throws InputError.
ScaleGrid parse_grid(const std::string& text);

}  // namespace keelson::bench
