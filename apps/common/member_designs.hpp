#pragma once

#include <string>
#include <vector>

#include "apps/common/subcommand.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::app {

/// The option sets of a file, for members of different design: a JSON list of objects, [{"lr": 0.01}, {"hidden": 64}].
/// Values are as text. `file` empty: no option sets. Throws InputError on all ranks for a file that is no such list.
/// Collective.
std::vector<Config> read_designs(const std::string& file, Communicator& world);

/// Throws InputError for an option that is not among `allowed`, and for a value that the option does not take. Sets
/// options of the subcommand; the caller sets them back.
void check_designs(const std::vector<Config>& designs, const std::string& file, const std::vector<std::string>& allowed,
                   Subcommand& subcommand);

}  // namespace keelson::app
