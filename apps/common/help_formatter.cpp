#include "apps/common/help_formatter.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/common/subcommand.hpp"

namespace keelson::app {

namespace {

/// The groups that the options of `app` are in: those of OptionGroup first.
std::vector<std::string> groups_of(const CLI::App* app) {
  std::vector<std::string> groups;
  for (int g = 0; g <= static_cast<int>(OptionGroup::mlperf); ++g)
    groups.emplace_back(heading(static_cast<OptionGroup>(g)));
  for (const std::string& other : app->get_groups())
    if (!other.empty() && std::ranges::find(groups, other) == groups.end()) groups.push_back(other);
  return groups;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (mode == CLI::AppFormatMode::Sub) return CLI::Formatter::make_help(app, std::move(name), mode);
  std::string text = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
  for (const std::string& group : groups_of(app)) {
    const auto options =
        app->get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); });
    if (!options.empty()) text += make_group(group, false, options);
  }
  return text + make_subcommands(app, mode) + make_footer(app);
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  std::string name = CLI::Formatter::make_option_name(option, is_positional);
  const std::string mark = "{false}";
  for (auto at = name.find(mark); at != std::string::npos; at = name.find(mark)) name.erase(at, mark.size());
  return name;
}

}  // namespace keelson::app
