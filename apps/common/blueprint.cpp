#include "apps/common/blueprint.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <map>

#include "apps/common/suggest.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::app {
namespace {

/// A value of a blueprint, with its place for errors.
struct BlueprintValue {
  const TomlEntry& entry;
  const std::string& where;

  [[noreturn]] void refuse_for(const std::string& expected) const {
    refuse("{}: {} = {}: expected {}", where, entry.name, fmt::join(entry.values, ", "), expected);
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

/// 2000000, 2e6, or "3x".
LayerWidth parameters_of(const BlueprintValue& v) {
  const std::string& text = v.word();
  if (text.ends_with('x')) return width_of(v, text);
  const double count = v.number_above(0, text);
  if (count != std::floor(count) || count > 1e15) v.refuse_for("a whole number, or a multiple as \"3x\"");
  return {.units = static_cast<std::int64_t>(count)};
}

/// The most units, or an array of the units at first and the most units.
WidthRange range_of(const BlueprintValue& v) {
  const auto& values = v.entry.values;
  if (values.empty() || values.size() > 2) v.refuse_for("the most units, or [units at first, most units]");
  return {.least = values.size() == 2 ? width_of(v, values[0]) : LayerWidth(), .most = width_of(v, values.back())};
}

/// The most copies, or an array of the copies at first and the most copies.
CopyRange copies_of(const BlueprintValue& v) {
  const auto& values = v.entry.values;
  if (values.empty() || values.size() > 2) v.refuse_for("the most copies, or [copies at first, most copies]");
  return {.least = values.size() == 2 ? v.count(values[0], 0) : 0, .most = v.count(values.back(), 0)};
}

/// true, false, or a number of epochs.
std::int64_t undo_of(const BlueprintValue& v) {
  if (v.word() == "true") return 1;
  if (v.word() == "false") return 0;
  return v.count(v.word(), 1);
}

/// Of a relative improvement.
double threshold_of(const BlueprintValue& v) {
  const auto found = parse_number<double>(v.word());
  if (!found || *found < 0 || *found >= 1) v.refuse_for("a number from 0, and below 1");
  return *found;
}

using BlueprintKeys = std::map<std::string, std::function<void(GrowthOptions&, const BlueprintValue&)>>;

const BlueprintKeys& keys() {
  static const BlueprintKeys all{{"method", [](auto& o, auto& v) { o.method = parse_widen_method(v.word()); }},
                                 {"factor", [](auto& o, auto& v) { o.factor = v.number_above(1, v.word()); }},
                                 {"parameters", [](auto& o, auto& v) { o.parameters = parameters_of(v); }},
                                 {"events", [](auto& o, auto& v) { o.events = v.count(v.word(), 1); }},
                                 {"ms", [](auto& o, auto& v) { o.milliseconds = v.number_above(0, v.word()); }},
                                 {"threshold", [](auto& o, auto& v) { o.threshold = threshold_of(v); }},
                                 {"undo", [](auto& o, auto& v) { o.undo = undo_of(v); }},
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
  return blueprint_of(toml_entries(text, path), "'" + path + "'");
}

GrowthOptions blueprint_of(const std::vector<TomlEntry>& entries, const std::string& where) {
  GrowthOptions o;
  std::string of_patience;  // a key that needs validations
  for (const TomlEntry& entry : entries) {
    const BlueprintValue value{entry, where};
    const auto dot = entry.section.find('.');
    const std::string section = entry.section.substr(0, dot);
    const std::string outer = dot == std::string::npos ? "" : entry.section.substr(dot + 1) + ".";
    if (section == "widths") o.widths[outer + entry.name] = range_of(value);
    if (section == "depth") o.depth[outer + entry.name] = copies_of(value);
    if (section == "widths" || section == "depth") continue;
    if (!entry.section.empty()) refuse("{}: unknown section [{}]; expected [widths] or [depth]", where, entry.section);
    if (entry.name == "widths" || entry.name == "depth")
      value.refuse_for("a section with a value for each layer, e.g. \"*\" = 2");
    const auto found = keys().find(entry.name);
    if (found == keys().end()) {
      std::vector<std::string> names;
      for (const auto& [name, read] : keys()) names.push_back(name);
      refuse("{}: unknown key '{}'; expected one of {}, and the sections [widths] and [depth]{}", where, entry.name,
             fmt::join(names, ", "), did_you_mean(entry.name, names));
    }
    try {
      found->second(o, value);
    } catch (const InputError& e) {
      const std::string message = e.what();
      refuse("{}{}", message.starts_with(where) ? "" : where + ": ", message);
    }
    if (entry.name == "patience" || entry.name == "undo" || entry.name == "threshold") of_patience = entry.name;
  }
  if (!of_patience.empty() && !o.epochs.empty())
    refuse("{}: has both {} and epochs; expected one of them", where, of_patience);
  if (o.widths.empty() && o.depth.empty())
    refuse(
        "{}: has no section [widths] or [depth]; expected units of layers at first and at most, e.g. "
        "\"*\" = [\"0.5x\", \"1x\"], or copies of layers, e.g. \"*\" = 1",
        where);
  return o;
}

Graph starting_network(const Graph& whole, const GrowthOptions& growth, const std::string& where) {
  try {
    return keelson::starting_network(whole, growth);
  } catch (const InputError& e) {
    refuse("{}: {}", where, e.what());
  }
}

void let_grow(TrainerOptions& t, const GrowthOptions& growth, const Graph& whole, const GrowingData& data) {
  if (growth.epochs.empty() && !data.validation)
    refuse(
        "growth without validation data: the network grows when validations no longer become better. Give validation "
        "data, or epochs in the blueprint");
  const Metric* const judge = t.evaluation.judge();
  t.change_network = Growth(growth, {.graph = whole,
                                     .training = data.training,
                                     .ranks = data.ranks,
                                     .seed = t.seed,
                                     .precision = t.precision,
                                     .threads = t.threads,
                                     .higher_is_better = judge && judge->higher_is_better()});
  t.learning_rate = [rule = growth.rate, schedule = t.schedule, epochs = t.epochs](const RunState& state) {
    return grown_rate(rule, schedule, epochs, state);
  };
}

}  // namespace keelson::app
