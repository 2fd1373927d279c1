#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/printable.hpp"

namespace keelson::nets {

/// Settings of a network by name, as text: {"growth", "12"}. The names are those of the programs' options, so that the
/// configuration of a checkpoint has them (RunState::config). A setting that is missing or empty keeps its default.
class Settings {
 public:
  Settings() = default;  ///< all defaults
  /// `source`: for messages, the checkpoint's path.
  Settings(std::map<std::string, std::string> values, std::string source)
      : values_(std::move(values)), source_(std::move(source)) {}

  /// The text of a setting; `missing` if there is none.
  std::string text(const std::string& name, const std::string& missing = "") const {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second.empty()) return missing;
    used_.insert(*found);
    return found->second;
  }
  /// Sets `value` to the number of a setting. Throws InputError, naming the source and the setting, for other texts.
  template <class T>
  void get(const std::string& name, T& value) const {
    if (const std::string found = text(name); !found.empty()) value = number<T>(name, found);
  }
  /// The same for "true" and "false".
  void get(const std::string& name, bool& value) const {
    const std::string found = text(name);
    if (found != "" && found != "true" && found != "false") refuse_text(name, found, "true or false");
    if (!found.empty()) value = found == "true";
  }
  /// The same for whole numbers with commas between them: "2,2,4".
  void get(const std::string& name, std::vector<int>& values) const {
    const std::string found = text(name);
    if (found.empty()) return;
    values.clear();
    for (std::size_t at = 0; at <= found.size();) {
      const auto end = std::min(found.find(',', at), found.size());
      values.push_back(number<int>(name, found.substr(at, end - at)));
      at = end + 1;
    }
  }
  const std::map<std::string, std::string>& values() const { return values_; }  ///< all of them
  /// Those that have been read so far: the settings of a network, once it is made.
  const std::map<std::string, std::string>& used() const { return used_; }
  /// Throws InputError: the setting is this text, but something else is expected.
  [[noreturn]] void refuse_text(const std::string& name, const std::string& found, const std::string& expected) const {
    refuse("{}: the setting '{}' is '{}'; expected {}", source_, name, printable(found), expected);
  }

 private:
  template <class T>
  T number(const std::string& name, const std::string& text) const {
    const auto value = parse_number<T>(text);
    if (!value) refuse_text(name, text, "a number");
    return *value;
  }

  std::map<std::string, std::string> values_;
  mutable std::map<std::string, std::string> used_;
  std::string source_ = "the network";
};

}  // namespace keelson::nets
