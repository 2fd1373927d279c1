#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "apps/search/training/search_data.hpp"
#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// Trains the networks of a search, each on the ranks of one group.
struct NetworkTrainer {
  const Settings& settings;
  const SearchData& data;
  Context& context;
  Communicator* ranks;                ///< that train one network; null: this rank alone
  std::filesystem::path folder;       ///< of the search: checkpoints lie in networks/NUMBER
  std::function<bool()> interrupted;  ///< asked after each step; may be empty

  /// Trains a network up to the end of a rung, from its newest checkpoint or from the beginning. With the same data,
  /// ranks and threads the same network gives the same bits, whoever trains it and in how many rungs. Throws Diverged
  /// for a loss that is not finite, Interrupted with a checkpoint. Collective over the group.
  Result train(std::int64_t id, const Genome& genome, int rung) const;
  /// Loss and metric of the newest checkpoint on other data. Collective over the group.
  Result evaluate(std::int64_t id, const Genome& genome, const Dataset& data_to_judge) const;

  std::filesystem::path checkpoints_of(std::int64_t id) const;  ///< folder of this network's checkpoints
};

/// The newest checkpoint in a folder; empty: there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder);

/// The seed of a network's initial values, dropout and sample order.
std::uint64_t seed_of(const Settings& settings, std::int64_t id);

}  // namespace keelson::search
