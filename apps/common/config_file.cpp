#include "apps/common/config_file.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "apps/common/suggest.hpp"
#include "apps/common/toml_file.hpp"
#include "engine/base/error.hpp"

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

}  // namespace

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
  for (const TomlEntry& entry : toml_entries(read_toml(path, "--config"), path)) {
    const std::string section = entry.section.empty() ? subcommand.get_name() : entry.section;
    if (std::find(subcommands.begin(), subcommands.end(), section) == subcommands.end())
      refuse("'{}': unknown section [{}]{}", path, section, did_you_mean(section, subcommands));
    if (section != subcommand.get_name()) continue;

    const CLI::Option* option = subcommand.get_option_no_throw("--" + entry.name);
    if (option == nullptr || entry.name == "config" || entry.name == "help" || entry.name == "version") {
      std::string hint = did_you_mean("--" + entry.name, long_names(subcommand));
      if (const auto dashes = hint.find("--"); dashes != std::string::npos) hint.erase(dashes, 2);
      refuse("'{}': '{}' is no option of '{}'{}", path, entry.name, subcommand.get_name(), hint);
    }
    if (given(*option, arguments)) continue;
    auto& words = made[option];
    if (option->get_items_expected_max() == 0) {  // a flag
      words = {fmt::format("--{}={}", entry.name, CLI::detail::join(entry.values, ","))};
    } else if (entry.values.size() == 1) {
      words = {fmt::format("--{}={}", entry.name, entry.values.front())};
    } else {
      words = {"--" + entry.name};
      words.insert(words.end(), entry.values.begin(), entry.values.end());
    }
  }
  std::vector<std::string> all;
  for (const auto& [option, words] : made) all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace keelson::app
