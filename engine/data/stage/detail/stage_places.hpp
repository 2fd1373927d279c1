#pragma once

#include <memory>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson::detail {

/// The folders to which files are staged. Ranks that see the same folder form a place. `lanes` ranks of each place do
/// the work; the ranks of the same lane in all places form a group.
struct StagePlaces {
  int place = 0;                          ///< number of this rank's place; places are counted by their lowest ranks
  int places = 1;                         ///< number of places
  bool first = true;                      ///< this rank is the lowest of its place
  int lanes = 1;                          ///< ranks that work in each place: those that the smallest place has
  int lane = 0;                           ///< of this rank; -1: the rank does not work
  std::unique_ptr<Communicator> members;  ///< the ranks of the place; null: this rank alone
  std::unique_ptr<Communicator> peers;    ///< the ranks of the lane, in order of places; null: this rank alone, or none
};

/// Makes the folder `target` on each rank, and finds out which ranks see the same folder: the lowest rank of each node
/// writes a marker, and the others look for it. Throws InputError on all ranks if a folder cannot be made or written.
/// `world` null: one rank. Collective.
StagePlaces find_stage_places(const std::string& target, Communicator* world);

}  // namespace keelson::detail
