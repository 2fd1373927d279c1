#include "apps/common/toml_file.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"

namespace keelson::app {
namespace {

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
  check_keys(text, path);
  std::istringstream lines(text);
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(lines);
  } catch (const std::exception& error) {
    refuse("the configuration file '{}' is not TOML as expected (lines like: batch = 4): {}", path, error.what());
  }
  std::vector<TomlEntry> entries;
  for (CLI::ConfigItem& item : items)
    if (item.name != "++" && item.name != "--")  // begin and end of a section
      entries.push_back({CLI::detail::join(item.parents, "."), std::move(item.name), std::move(item.inputs)});
  return entries;
}

std::string to_toml(const std::vector<TomlEntry>& entries) {
  const auto quoted = [](const std::string& word) {
    std::string text;
    for (const char c : word) text += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
    return '"' + text + '"';
  };
  std::map<std::string, std::string> sections;  // the lines without a section come first
  for (const TomlEntry& entry : entries) {
    std::vector<std::string> values;
    for (const std::string& value : entry.values) values.push_back(quoted(value));
    const std::string all = CLI::detail::join(values, ", ");
    sections[entry.section] += fmt::format("{} = {}\n", quoted(entry.name), values.size() == 1 ? all : "[" + all + "]");
  }
  std::string text;
  for (const auto& [section, lines] : sections) text += (section.empty() ? "" : "\n[" + section + "]\n") + lines;
  return text;
}

}  // namespace keelson::app
