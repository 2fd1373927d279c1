#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/common/option_table.hpp"

/// Options with the default value and the unit in --help:
///
///   app::option(verb, "--learning-rate", o->learning_rate, "Step size of the optimizer");
///   app::option(verb, "--time-limit", o->time_limit, "Stop after this time", "SECONDS")->check(CLI::PositiveNumber);
///   app::flag(verb, "--augment", o->augment, "Turn and mirror the cubes at random");
namespace keelson::app {

/// Long names in kebab-case. `unit` is what stands for the value in --help, e.g. "SECONDS", "DIR"; by default the
/// type's name.
template <class T>
CLI::Option* option(CLI::App& verb, const std::string& names, T& value, const std::string& help,
                    const std::string& unit = "") {
  CLI::Option* made = verb.add_option(names, value, help)->capture_default_str();
  if (!unit.empty()) made->type_name(unit);
  return made;
}

/// An option without a default that --help could show; the verb finds `value` unchanged if it was not given.
template <class T>
CLI::Option* option_without_default(CLI::App& verb, const std::string& names, T& value, const std::string& help,
                                    const std::string& unit = "") {
  CLI::Option* made = verb.add_option(names, value, help);
  if (!unit.empty()) made->type_name(unit);
  return made;
}

/// A switch, off unless `value` is true from the start: then --no-NAME turns it off.
CLI::Option* flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help);

/// The options that a run had, from what its checkpoint holds of them. `Run` has a function declare(Run&, CLI::App&,
/// OptionTable&). Throws InputError for values that do not fit.
template <class Run>
Run stored_options(const Config& config) {
  CLI::App verb;
  OptionTable table;
  Run run;
  declare(run, verb, table);
  table.fill(config, "the checkpoint's configuration");
  return run;
}

}  // namespace keelson::app
