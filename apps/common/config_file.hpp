#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace keelson::app {

/// The text of a file that the user has named with `option` ("--config"). Throws InputError for a file that cannot be
/// read, is larger than 1 MiB or is no text.
std::string read_toml(const std::string& path, const std::string& option);

/// A line of a TOML file, name = value.
struct TomlEntry {
  std::string section;              ///< "" before the first section, "widths" in [widths]
  std::string name;                 ///< without quotes
  std::vector<std::string> values;  ///< several for an array, without quotes
};
/// The lines of a TOML text, in order. `path`: where it is from, for errors. Throws InputError for a text that is not
/// TOML, for lines without a value, and for names that stand twice in a section.
std::vector<TomlEntry> toml_entries(const std::string& text, const std::string& path);

/// The options in a TOML file as command-line arguments of `subcommand`, without the options that `arguments` already
/// contain. Keys are the long option names without the dashes; keys in a section [name] hold only for the subcommand of
/// that name. Throws InputError for a file that cannot be read and for keys that the subcommand does not know.
std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& subcommand,
                                               const std::vector<std::string>& subcommands,
                                               const std::vector<std::string>& arguments);

/// All long names of the subcommand's options, with dashes.
std::vector<std::string> long_names(const CLI::App& subcommand);

}  // namespace keelson::app
