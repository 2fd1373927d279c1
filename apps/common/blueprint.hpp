#pragma once

#include <string>
#include <vector>

#include "apps/common/toml_file.hpp"
#include "engine/train/growth.hpp"
#include "engine/train/trainer_options.hpp"

namespace keelson::app {

/// The name of a run's blueprint in RunState::texts.
inline constexpr const char* blueprint_text = "blueprint";

/// What the TOML text of a blueprint (docs/growing.md) says. `path`: where it is from, for errors. Throws InputError
/// for a text that is no TOML, and for keys and values that a blueprint does not have.
GrowthOptions parse_blueprint(const std::string& text, const std::string& path);
/// The same of the keys and values themselves. `where`: at the beginning of errors, "'blueprint.toml'".
GrowthOptions blueprint_of(const std::vector<TomlEntry>& entries, const std::string& where);

/// starting_network() of a blueprint. Throws InputError as that, with `where` in front.
Graph starting_network(const Graph& whole, const GrowthOptions& growth, const std::string& where);

/// What let_grow() needs; as in Growth::Task.
struct GrowingData {
  const Dataset& training;
  const Dataset* validation = nullptr;  ///< null: none
  Communicator* ranks = nullptr;        ///< null: this rank alone
};
/// Lets the network of a training grow, as `growth` says: sets change_network and learning_rate of `t`, whose other
/// options are final. `whole`: the program's network. `whole` and the data must outlive the training. Throws InputError
/// as Growth, and if the network grows by validations and there are no data for these.
void let_grow(TrainerOptions& t, const GrowthOptions& growth, const Graph& whole, const GrowingData& data);

}  // namespace keelson::app
