#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/option.hpp"

namespace keelson::app {

using Config = std::map<std::string, std::string>;  ///< option name without dashes -> value as text

/// The same with the names as the user gives them: "lr" becomes "--lr".
Config dashed(const Config& config);

/// The parts of --help, in the order in which --help shows them.
enum class OptionGroup { options, data, network, training, run, ensemble, machine, mlperf };
/// The heading of a group: "Data".
const char* heading(OptionGroup group);

/// One subcommand of a program (`keelson-x train`) and its options:
///
///   subcommand.option("--lr", o.lr, "Learning rate after warm-up", "RATE").positive().stored();
///   subcommand.flag("--augment", o.augment, "Turn and mirror the cubes at random").stored();
///
/// The variables to which options are bound must outlive the subcommand.
class Subcommand {
 public:
  Subcommand();  ///< a subcommand without a program, for options that do not come from a command line
  Subcommand(CLI::App& parent, const std::string& name, const std::string& description);
  ~Subcommand();
  Subcommand(const Subcommand&) = delete;
  Subcommand& operator=(const Subcommand&) = delete;

  /// While it is alive, new options are in a group of --help.
  class [[nodiscard]] InGroup {
   public:
    InGroup(Subcommand& subcommand, OptionGroup group) : subcommand_(subcommand), outer_(subcommand.group_) {
      subcommand.group_ = group;
    }
    ~InGroup() { subcommand_.group_ = outer_; }
    InGroup(const InGroup&) = delete;
    InGroup& operator=(const InGroup&) = delete;

   private:
    Subcommand& subcommand_;
    OptionGroup outer_;
  };
  /// The options that are declared until the result is destroyed are in this group of --help.
  InGroup in(OptionGroup group) { return {*this, group}; }

  /// `names`: long names in kebab-case, "--size,--subcube". `unit` stands for the value in --help ("SECONDS", "DIR");
  /// by default the type does. --help shows the present value of `target` as the default.
  template <class T>
  Option& option(const std::string& names, T& target, const std::string& help, const std::string& unit = "") {
    return add(names, &target, help, unit, true);
  }
  /// An option whose default --help does not show.
  template <class T>
  Option& option_without_default(const std::string& names, T& target, const std::string& help,
                                 const std::string& unit = "") {
    return add(names, &target, help, unit, false);
  }
  /// A switch `--NAME`. If `target` is true at first, the switch is on, and `--no-NAME` turns it off.
  Option& flag(const std::string& name, bool& target, const std::string& help);
  /// Positional arguments.
  void positional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                  const std::string& unit);
  void footer(const std::string& text);  ///< below the options in --help

  /// If the user gives `option`, fill() does not set `other`.
  void replaces(const std::string& option, const std::string& other) { replaced_by_[other] = option; }
  bool given(const std::string& name) const;  ///< by the user, or by override_with()
  /// The options declared output() that the user gave, with their values: {"--trace", "trace.json"}.
  std::vector<std::pair<std::string, std::string>> outputs() const;
  /// All other texts that the user gave as values. Some of them name files that the subcommand reads.
  std::vector<std::string> inputs() const;
  Option& find(const std::string& name);

  /// The stored options, with their present values.
  Config values() const;
  /// The options that are declared neither stored() nor not_stored(). A subcommand that trains must have none.
  std::vector<std::string> undecided() const;
  /// The stored options, without paths, for which the user has given another value than `config` has: "--lr 0.5 (was
  /// 0.1)".
  std::vector<std::string> changes(const Config& config) const;
  /// All options that must be the same on all ranks, with their present values.
  Config common_values() const;
  /// Sets the stored options from `config`, except options that the user gave, or replaced (replaces()). Throws
  /// InputError, naming `source`, for values that do not fit.
  void fill(const Config& config, const std::string& source);
  /// Gives these options other values, as if the user had given them: for a member of an ensemble. Only the options of
  /// the last call count as given. Forgets what fill() has set, but not the values: the caller first sets all options
  /// back. Throws InputError, naming `source`, for values that do not fit.
  void override_with(const Config& config, const std::string& source);
  /// The stored options in which the members of an ensemble may differ.
  std::vector<std::string> member_options() const;
  /// Reads a command line without the names of program and subcommand. For a subcommand without a program. Throws
  /// InputError.
  void parse(const std::vector<std::string>& arguments);

  CLI::App& cli() const { return *app_; }

 private:
  static void set(Option& option, const std::string& text, const std::string& source);
  Option& add(const std::string& names, Option::Destination target, const std::string& help, const std::string& unit,
              bool shows_default);

  std::unique_ptr<CLI::App> own_;
  CLI::App* app_;
  OptionGroup group_ = OptionGroup::options;  ///< of the next option
  std::deque<Option> options_;
  std::vector<const std::vector<std::string>*> positional_;
  std::map<std::string, std::string> replaced_by_;
  Config overridden_;
};

/// The options of a run, from the configuration in its checkpoint. `Run` must have a function declare(Run&,
/// Subcommand&). Throws InputError for values that do not fit.
template <class Run>
Run stored_options(const Config& config) {
  Subcommand subcommand;
  Run run;
  declare(run, subcommand);
  subcommand.fill(config, "the checkpoint's configuration");
  return run;
}

}  // namespace keelson::app
