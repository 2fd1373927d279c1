#pragma once

#include <string>
#include <vector>

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
/// The opposite of toml_entries(): a TOML text with all values as strings. Names and values have no line breaks.
std::string to_toml(const std::vector<TomlEntry>& entries);

}  // namespace keelson::app
