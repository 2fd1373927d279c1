#include "apps/common/config_file.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>

#include "apps/common/suggest.hpp"
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

std::vector<CLI::ConfigItem> items_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse("cannot read the configuration file '{}' (--config)", path);
  try {
    return CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    refuse("the configuration file '{}' is not TOML as expected (lines like: batch = 4): {}", path, error.what());
  }
}

}  // namespace

std::vector<std::string> long_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> arguments_from_config(const std::string& path, const CLI::App& verb,
                                               const std::vector<std::string>& verbs,
                                               const std::vector<std::string>& arguments) {
  std::map<const CLI::Option*, std::vector<std::string>> made;  // a later key, as of the verb's section, wins
  for (const CLI::ConfigItem& item : items_of(path)) {
    if (item.name == "++" || item.name == "--") continue;  // begin and end of a section
    const std::string section = item.parents.empty() ? verb.get_name() : item.parents.front();
    if (std::find(verbs.begin(), verbs.end(), section) == verbs.end() || item.parents.size() > 1)
      refuse("'{}': unknown section [{}]{}", path, CLI::detail::join(item.parents, "."), did_you_mean(section, verbs));
    if (section != verb.get_name()) continue;

    const CLI::Option* option = verb.get_option_no_throw("--" + item.name);
    if (option == nullptr || item.name == "config" || item.name == "help" || item.name == "version") {
      std::string hint = did_you_mean("--" + item.name, long_names(verb));
      if (const auto dashes = hint.find("--"); dashes != std::string::npos) hint.erase(dashes, 2);
      refuse("'{}': '{}' is no option of '{}'{}", path, item.name, verb.get_name(), hint);
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
