#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace keelson::app {

/// The options in a TOML file as command-line arguments of `subcommand`, without the options that `arguments` already
/// contain. Keys are the long option names without the dashes; keys in a section [name] hold only for the subcommand of
/// that name. Throws InputError for a file that cannot be read and for keys that the subcommand does not know.
std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& subcommand,
                                               const std::vector<std::string>& subcommands,
                                               const std::vector<std::string>& arguments);

/// All long names of the subcommand's options, with dashes.
std::vector<std::string> long_names(const CLI::App& subcommand);

}  // namespace keelson::app
