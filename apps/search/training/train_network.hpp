#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "apps/search/training/search_data.hpp"
#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"
#include "engine/train/trainer.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// A training of a network for some epochs.
struct TrainingRun {
  std::int64_t id = 0;           ///< of the network
  const Genome& genome;          ///< of the network
  int rung = 0;                  ///< after which it ends
  const Dataset& data;           ///< on which it trains
  std::filesystem::path folder;  ///< of its checkpoints; the newest one there goes on
  /// Else it begins with the weights and the optimizer's state of this checkpoint; empty: with new ones.
  std::filesystem::path source = {};
  std::int64_t source_id = -1;  ///< the network of that checkpoint
};

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
  /// The same for a run of any other data, or from another network's weights. Epochs are counted as those of the
  /// network itself, up to the rung before.
  Result train(const TrainingRun& run) const;
  /// Loss and metric of a network's newest checkpoint on other data. Collective over the group.
  Result evaluate(std::int64_t id, const Genome& genome, const Dataset& data_to_judge) const;
  /// The same of any checkpoint. `id`: the network that wrote it.
  Result evaluate(const std::filesystem::path& checkpoint, std::int64_t id, const Genome& genome,
                  const Dataset& data_to_judge) const;

  /// How the network is trained on these samples. The caller adds epochs and checkpoints.
  TrainerOptions options_of(std::int64_t id, const Genome& genome, const Dataset& training) const;

  std::filesystem::path checkpoints_of(std::int64_t id) const;  ///< folder of this network's checkpoints
};

/// The newest checkpoint in a folder, or, for a member of a population, in the folders of its rungs; empty: there is
/// none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder);

/// The folder of a member's checkpoints up to the end of a rung, in the folder of the member.
std::filesystem::path folder_of_rung(const std::filesystem::path& member, int rung);

/// The folder of the checkpoints of a network's latest result, in the folder of a search.
std::filesystem::path checkpoints_of_last(const std::filesystem::path& search, const Individual& individual,
                                          const Settings& settings);

/// The seed of a network's initial values, dropout and sample order.
std::uint64_t seed_of(const Settings& settings, std::int64_t id);

}  // namespace keelson::search
