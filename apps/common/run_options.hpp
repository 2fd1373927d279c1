#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/common/optimizer_options.hpp"

namespace keelson::app {

/// The options that define a training run of any network, except for its paths. Checkpoints store all of them but the
/// recipe, whose options they store. A program's own run options derive from this.
struct RunOptions : OptimizerOptions {
  std::string recipe;  ///< name; empty: none
  std::string precision = "default";
};

/// Hyper-parameters by the name of the recipe.
using Recipes = std::map<std::string, Config>;
/// Throws InputError for a name that is not there.
const Config& find_recipe(const Recipes& recipes, const std::string& name);

/// Declares --recipe on a subcommand.
void declare_recipe(RunOptions& o, Subcommand& subcommand, const Recipes& recipes,
                    const std::string& help = "Published hyper-parameters; options that you also give win");
/// Declares --precision on a subcommand. `what`: that has this precision, "convolutions' operands".
void declare_precision(RunOptions& o, Subcommand& subcommand, const std::string& what);

}  // namespace keelson::app
