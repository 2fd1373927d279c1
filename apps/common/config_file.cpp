#include "apps/common/config_file.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "apps/common/suggest.hpp"
#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"

namespace keelson::app {
namespace {

bool given(const CLI::Option& option, const std::vector<std::string>& arguments) {
  const auto names = [&](const std::string& argument) {
    for (const std::string& name : option.get_lnames())
      if (argument == "--" + name || argument.starts_with("--" + name + "=")) return true;
    for (const std::string& name : option.get_snames())
      if (argument.starts_with("-" + name)) return true;
    return false;
  };
  return std::any_of(arguments.begin(), arguments.end(), names);
}

/// Refuses two errors that CLI11 accepts: a key that stands twice in a section (CLI11 makes a list of the values), and
/// a line without a value (CLI11 ignores the line).
void check_keys(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  std::set<std::string> seen;
  std::string section;
  int depth = 0, number = 0;  // depth: number of open brackets; the lines within an array have no keys
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    if (depth == 0 && line[first] == '[') {
      section = line.substr(first, line.find(']', first) - first);
      continue;
    }
    const auto sign = line.find_first_of("=#");
    if (depth == 0) {
      const auto last = sign == 0 ? std::string::npos : line.find_last_not_of(" \t\r", sign - 1);
      const auto key = last == std::string::npos ? "" : printable(line.substr(first, last - first + 1));
      const bool has_sign = sign != std::string::npos && line[sign] == '=';
      const auto value = has_sign ? line.find_first_not_of(" \t\r", sign + 1) : std::string::npos;
      if (value == std::string::npos || line[value] == '#')
        refuse("'{}', line {}: '{}' has no value; expected a line like: batch = 4", path, number, key);
      if (!seen.insert(section + "]" + key).second)
        refuse("'{}', line {}: '{}' is given twice; expected each option once in a section", path, number, key);
    }
    char quote = '\0';
    for (std::size_t i = depth == 0 && sign != std::string::npos ? sign : first; i < line.size(); ++i) {
      const char c = line[i];
      if (quote != '\0') {
        if (c == '\\' && quote == '"') ++i;
        if (c == quote) quote = '\0';
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '#') {
        break;
      } else {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      }
    }
  }
}

std::vector<CLI::ConfigItem> items_of(const std::string& text, const std::string& path) {
  check_keys(text, path);
  std::istringstream lines(text);
  try {
    return CLI::ConfigTOML().from_config(lines);
  } catch (const std::exception& error) {
    refuse("the configuration file '{}' is not TOML as expected (lines like: batch = 4): {}", path, error.what());
  }
}

}  // namespace

std::string read_toml(const std::string& path, const std::string& option) {
  constexpr std::size_t most = 1 << 20;
  std::error_code error;
  if (path.empty()) refuse("{}: found an empty name, expected a TOML file", option);
  if (std::filesystem::is_directory(path, error)) refuse("{} {}: is a folder, expected a TOML file", option, path);
  std::ifstream file(path, std::ios::binary);  // also reads pipes: --config <(make-options)
  std::string text(most + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) refuse("{} {}: cannot be read; check the path and its permissions", option, path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most) refuse("{} {}: is larger than 1 MiB, expected a TOML file", option, path);
  if (text.find('\0') != std::string::npos)
    refuse("{} {}: holds bytes of value 0, expected a TOML file as UTF-8 text", option, path);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // the byte order mark that some editors write
  return text;
}

std::vector<TomlEntry> toml_entries(const std::string& text, const std::string& path) {
  std::vector<TomlEntry> entries;
  for (CLI::ConfigItem& item : items_of(text, path))
    if (item.name != "++" && item.name != "--")  // begin and end of a section
      entries.push_back({CLI::detail::join(item.parents, "."), std::move(item.name), std::move(item.inputs)});
  return entries;
}

std::vector<std::string> long_names(const CLI::App& subcommand) {
  std::vector<std::string> names;
  for (const CLI::Option* option : subcommand.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& subcommand,
                                               const std::vector<std::string>& subcommands,
                                               const std::vector<std::string>& arguments) {
  std::map<const CLI::Option*, std::vector<std::string>>
      made;  // a later key wins, e.g. a key of the subcommand's section
  for (const CLI::ConfigItem& item : items_of(read_toml(path, "--config"), path)) {
    if (item.name == "++" || item.name == "--") continue;  // begin and end of a section
    const std::string section = item.parents.empty() ? subcommand.get_name() : item.parents.front();
    if (std::find(subcommands.begin(), subcommands.end(), section) == subcommands.end() || item.parents.size() > 1)
      refuse("'{}': unknown section [{}]{}", path, CLI::detail::join(item.parents, "."),
             did_you_mean(section, subcommands));
    if (section != subcommand.get_name()) continue;

    const CLI::Option* option = subcommand.get_option_no_throw("--" + item.name);
    if (option == nullptr || item.name == "config" || item.name == "help" || item.name == "version") {
      std::string hint = did_you_mean("--" + item.name, long_names(subcommand));
      if (const auto dashes = hint.find("--"); dashes != std::string::npos) hint.erase(dashes, 2);
      refuse("'{}': '{}' is no option of '{}'{}", path, item.name, subcommand.get_name(), hint);
    }
    if (given(*option, arguments)) continue;
    auto& words = made[option];
    if (option->get_items_expected_max() == 0) {  // a flag
      words = {fmt::format("--{}={}", item.name, CLI::detail::join(item.inputs, ","))};
    } else if (item.inputs.size() == 1) {
      words = {fmt::format("--{}={}", item.name, item.inputs.front())};
    } else {
      words = {"--" + item.name};
      words.insert(words.end(), item.inputs.begin(), item.inputs.end());
    }
  }
  std::vector<std::string> all;
  for (const auto& [option, words] : made) all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace keelson::app
