#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace keelson::app {

using Config = std::map<std::string, std::string>;  ///< option name without dashes -> value as text

/// Some options of a verb by name: their values as text, for checkpoints, and values from elsewhere for those that the
/// user left out.
class OptionTable {
 public:
  void add(CLI::Option* option) { entries_.push_back({option, nullptr}); }
  void add_flag(CLI::Option* option, const bool& value) { entries_.push_back({option, &value}); }
  /// The user's `option` makes values of `other` from elsewhere meaningless.
  void replaces(const std::string& option, const std::string& other) { replaced_by_[other] = option; }
  bool given(const std::string& name) const;
  /// Given and default values.
  Config values() const;
  /// Sets the options that the user neither gave nor replaced, where `config` has them. Throws InputError, naming
  /// `source`, for values that do not fit.
  void fill(const Config& config, const std::string& source) const;

 private:
  struct Entry {
    CLI::Option* option;
    const bool* flag;  ///< null: takes a value
    std::string name() const;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::string> replaced_by_;
};

}  // namespace keelson::app
