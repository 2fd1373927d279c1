#include "apps/common/option_table.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <set>

#include "engine/base/error.hpp"

namespace keelson::app {

std::string OptionTable::Entry::name() const {
  const auto long_name = option->get_lnames().at(0);
  return flag && long_name.starts_with("no-") ? long_name.substr(3) : long_name;
}

bool OptionTable::given(const std::string& name) const {
  for (const auto& e : entries_)
    if (e.name() == name) return e.option->count() > 0;
  return false;
}

Config OptionTable::values() const {
  Config all;
  for (const auto& e : entries_) {
    if (e.flag)
      all[e.name()] = *e.flag ? "true" : "false";
    else if (e.option->count() > 0)
      all[e.name()] = fmt::format("{}", fmt::join(e.option->reduced_results(), ","));
    else
      all[e.name()] = e.option->get_default_str();
  }
  return all;
}

void OptionTable::fill(const Config& config, const std::string& source) const {
  std::set<std::string> replaced;  // known before any is filled, which then looks like given
  for (const auto& [other, by] : replaced_by_)
    if (given(by)) replaced.insert(other);
  for (const auto& e : entries_) {
    const auto found = config.find(e.name());
    if (replaced.contains(e.name()) || e.option->count() > 0 || found == config.end() || found->second.empty())
      continue;
    try {
      e.option->add_result(found->second);
      e.option->run_callback();
    } catch (const CLI::Error& error) {
      refuse("{}: {} = {}: {}", source, found->first, found->second, error.what());
    }
  }
}

}  // namespace keelson::app
