#include "engine/train/checkpoint/state_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

std::string text_of(const std::string& v) { return v; }
std::string text_of(const std::vector<double>& v) { return fmt::format("{}", fmt::join(v, " ")); }
template <class T>
  requires std::is_arithmetic_v<T>
std::string text_of(T v) {
  return fmt::format("{}", v);  // shortest text that reads back as the same number; also "nan" and "inf"
}

void from_text(const std::string& text, std::string& v) { v = text; }
void from_text(const std::string& text, double& v) { v = std::strtod(text.c_str(), nullptr); }
void from_text(const std::string& text, std::vector<double>& v) {
  v.clear();
  const char* p = text.c_str();
  for (char* end = nullptr;; p = end) {
    const double d = std::strtod(p, &end);
    if (end == p) return;
    v.push_back(d);
  }
}
template <class T>
  requires std::is_integral_v<T>
void from_text(const std::string& text, T& v) {
  std::from_chars(text.data(), text.data() + text.size(), v);
}

}  // namespace

std::string to_text(const RunState& state) {
  nlohmann::json j;
  visit_fields(state, [&](const char* name, const auto& field) { j[name] = text_of(field); });
  const auto set = [&](const char* name, const auto& field) { j[name] = text_of(field); };
  if (state.part_step > 0) visit_part(state, set);
  if (state.epoch_samples > 0) visit_epoch(state, set);
  j["config"] = state.config;
  for (const auto& [name, values] : state.observed) {
    KEELSON_EXPECT(!j.contains(name));
    j[name] = text_of(values);
  }
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunState state_from_text(const std::string& text) {
  auto j = nlohmann::json::parse(text);
  RunState s;
  const auto take = [&](const char* name, auto& field) {
    from_text(j.at(name).get<std::string>(), field);
    j.erase(name);
  };
  visit_fields(s, take);
  if (j.contains("part_step")) visit_part(s, take);
  if (j.contains("epoch_samples")) visit_epoch(s, take);
  s.config = j.at("config").get<std::map<std::string, std::string>>();
  j.erase("config");
  for (const auto& [name, values] : j.items()) from_text(values.get<std::string>(), s.observed[name]);
  return s;
}

}  // namespace keelson
