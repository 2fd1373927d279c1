#include "apps/common/blueprint.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "apps/common/config_file.hpp"
#include "apps/common/suggest.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::app {
namespace {

/// A value of a blueprint, with its place for errors.
struct BlueprintValue {
  const TomlEntry& entry;
  const std::string& path;

  [[noreturn]] void refuse_for(const std::string& expected) const {
    refuse("'{}': {} = {}: expected {}", path, entry.name, fmt::join(entry.values, ", "), expected);
  }
  const std::string& word() const {
    if (entry.values.size() != 1) refuse_for("one value");
    return entry.values[0];
  }
  std::int64_t count(const std::string& text, std::int64_t least) const {
    const auto found = parse_number<std::int64_t>(text);
    if (!found || *found < least) refuse_for(fmt::format("a whole number of {} or more", least));
    return *found;
  }
  double number_above(double least, const std::string& text) const {
    const auto found = parse_number<double>(text);
    if (!found || !(*found > least)) refuse_for(fmt::format("a number above {}", least));
    return *found;
  }
};

/// 64, or "2x".
LayerWidth width_of(const BlueprintValue& v, const std::string& text) {
  if (!text.ends_with('x')) return {.units = v.count(text, 1)};
  return {.times = v.number_above(0, text.substr(0, text.size() - 1))};
}

/// The most units, or an array of the units at first and the most units.
WidthRange range_of(const BlueprintValue& v) {
  const auto& values = v.entry.values;
  if (values.empty() || values.size() > 2) v.refuse_for("the most units, or [units at first, most units]");
  return {.least = values.size() == 2 ? width_of(v, values[0]) : LayerWidth(), .most = width_of(v, values.back())};
}

using BlueprintKeys = std::map<std::string, std::function<void(GrowthOptions&, const BlueprintValue&)>>;

const BlueprintKeys& keys() {
  static const BlueprintKeys all{{"method", [](auto& o, auto& v) { o.method = parse_widen_method(v.word()); }},
                                 {"factor", [](auto& o, auto& v) { o.factor = v.number_above(1, v.word()); }},
                                 {"patience", [](auto& o, auto& v) { o.patience = v.count(v.word(), 1); }},
                                 {"epochs",
                                  [](auto& o, auto& v) {
                                    for (const std::string& text : v.entry.values) o.epochs.push_back(v.count(text, 1));
                                  }},
                                 {"layers",
                                  [](auto& o, auto& v) {
                                    if (v.word() != "one" && v.word() != "all") v.refuse_for("\"one\" or \"all\"");
                                    o.one_layer = v.word() == "one";
                                  }},
                                 {"rate", [](auto& o, auto& v) { o.rate = parse_grown_rate(v.word()); }},
                                 {"probe", [](auto& o, auto& v) { o.probe = v.count(v.word(), 1); }}};
  return all;
}

}  // namespace

GrowthOptions parse_blueprint(const std::string& text, const std::string& path) {
  GrowthOptions o;
  bool patience = false;
  for (const TomlEntry& entry : toml_entries(text, path)) {
    const BlueprintValue value{entry, path};
    const auto dot = entry.section.find('.');
    if (entry.section.substr(0, dot) == "widths") {
      const std::string outer = dot == std::string::npos ? "" : entry.section.substr(dot + 1) + ".";
      o.widths[outer + entry.name] = range_of(value);
      continue;
    }
    if (!entry.section.empty()) refuse("'{}': unknown section [{}]; expected [widths] alone", path, entry.section);
    const auto found = keys().find(entry.name);
    if (found == keys().end()) {
      std::vector<std::string> names;
      for (const auto& [name, read] : keys()) names.push_back(name);
      refuse("'{}': unknown key '{}'; expected one of {}, and the section [widths]{}", path, entry.name,
             fmt::join(names, ", "), did_you_mean(entry.name, names));
    }
    try {
      found->second(o, value);
    } catch (const InputError& e) {
      const std::string message = e.what();
      refuse("{}{}", message.starts_with("'" + path) ? "" : "'" + path + "': ", message);
    }
    patience |= entry.name == "patience";
  }
  if (patience && !o.epochs.empty()) refuse("'{}': has both patience and epochs; expected one of them", path);
  if (o.widths.empty())
    refuse(
        "'{}': has no section [widths]; expected units of layers at first and at most, e.g. "
        "\"*\" = [\"0.5x\", \"1x\"]",
        path);
  return o;
}

}  // namespace keelson::app
