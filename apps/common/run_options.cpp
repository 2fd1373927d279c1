#include "apps/common/run_options.hpp"

#include <fmt/ranges.h>

#include "engine/base/error.hpp"
#include "engine/plan/precision.hpp"

namespace keelson::app {
namespace {

std::vector<std::string> names_of(const Recipes& recipes) {
  std::vector<std::string> names;
  for (const auto& [name, config] : recipes) names.push_back(name);
  return names;
}

}  // namespace

const Config& find_recipe(const Recipes& recipes, const std::string& name) {
  const auto found = recipes.find(name);
  if (found == recipes.end()) refuse("unknown recipe {}: expected one of {}", name, fmt::join(names_of(recipes), ", "));
  return found->second;
}

void declare_recipe(RunOptions& o, Subcommand& v, const Recipes& recipes, const std::string& help) {
  v.option_without_default("--recipe", o.recipe, help)
      .one_of(names_of(recipes))
      .not_stored();  // the options of the recipe are stored
}

void declare_precision(RunOptions& o, Subcommand& v, const std::string& what) {
  v.option("--precision", o.precision,
           fmt::format("Precision of {}; default: fp32 on CPUs, bf16 on GPUs (fp16 before Ampere); auto: the precision "
                       "that is faster here, "
                       "measured at the start",
                       what))
      .one_of(precisions())
      .stored();
}

}  // namespace keelson::app
