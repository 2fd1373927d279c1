#include "apps/common/member_designs.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"
#include "engine/base/ranks.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::app {
namespace {

std::string entry_of(const std::string& file, std::size_t number) { return fmt::format("{}: entry {}", file, number); }

std::string text_of_value(const nlohmann::json& value, const std::string& entry, const std::string& name) {
  if (value.is_string()) return value;
  if (value.is_number() || value.is_boolean()) return value.dump();
  const bool list = value.is_array() && !value.empty() &&
                    std::ranges::all_of(value, [](const auto& v) { return v.is_number() || v.is_string(); });
  if (!list) refuse("{}: '{}' is {}. Expected a number, a text, true, false or a list", entry, name, value.dump());
  std::vector<std::string> texts;
  for (const auto& v : value) texts.push_back(v.is_string() ? v.get<std::string>() : v.dump());
  return fmt::format("{}", fmt::join(texts, ","));
}

nlohmann::json parse_list(const std::string& text, const std::string& file) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    refuse("{}: cannot be read as a list of option sets ({})", file, error.what());
  }
}

}  // namespace

std::vector<Config> read_designs(const std::string& file, Communicator& world) {
  if (file.empty()) return {};
  std::string text;
  on_first_rank(&world, [&] {
    const auto found = read_small_file(file);
    if (!found) refuse("--members-file {}: cannot be read", file);
    text = *found;
  });
  const auto list = parse_list(world.allgather(text)[0], file);
  if (!list.is_array() || list.empty())
    refuse("{}: found {}. Expected a list of option sets, as [{{\"lr\": 0.01}}, {{\"lr\": 0.02}}]", file,
           list.is_array() ? "an empty list" : "no list");
  std::vector<Config> designs;
  for (const auto& entry : list) {
    const std::string where = entry_of(file, designs.size());
    if (!entry.is_object())
      refuse("{} is {}. Expected options and their values, as {{\"lr\": 0.01}}", where, entry.dump());
    Config& design = designs.emplace_back();
    for (const auto& [name, value] : entry.items()) design[name] = text_of_value(value, where, name);
  }
  return designs;
}

void check_designs(const std::vector<Config>& designs, const std::string& file, const std::vector<std::string>& allowed,
                   Subcommand& subcommand) {
  for (std::size_t i = 0; i < designs.size(); ++i) {
    for (const auto& [name, value] : designs[i])
      if (std::ranges::find(allowed, name) == allowed.end())
        refuse("{} has '{}'. Expected options in which members may differ: {}", entry_of(file, i), printable(name),
               fmt::join(allowed, ", "));
    subcommand.override_with(designs[i], entry_of(file, i));
  }
  subcommand.override_with({}, "");
}

}  // namespace keelson::app
