#include "blueprint.hpp"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>

#include <filesystem>
#include <vector>

#include "apps/common/blueprint.hpp"
#include "engine/base/error.hpp"

namespace keelson::python {
namespace {

/// As TOML has it: True is true.
std::string word_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "true" : "false";
  return nb::str(value).c_str();
}

app::TomlEntry entry_of(const std::string& section, nb::handle name, nb::handle value) {
  app::TomlEntry entry{section, word_of(name), {}};
  if (nb::isinstance<nb::str>(value) || !nb::hasattr(value, "__iter__"))
    entry.values.push_back(word_of(value));
  else
    for (const nb::handle item : nb::iter(value)) entry.values.push_back(word_of(item));
  return entry;
}

std::vector<app::TomlEntry> entries_of(const nb::dict& blueprint) {
  std::vector<app::TomlEntry> entries;
  for (const auto& [key, value] : blueprint) {
    if (nb::isinstance<nb::dict>(value))
      for (const auto& [layer, range] : nb::cast<nb::dict>(value))
        entries.push_back(entry_of(word_of(key), layer, range));
    else
      entries.push_back(entry_of("", key, value));
  }
  return entries;
}

}  // namespace

std::optional<Blueprint> blueprint_of(nb::handle grow) {
  if (grow.is_none()) return std::nullopt;
  if (nb::isinstance<nb::dict>(grow)) {
    const auto entries = entries_of(nb::cast<nb::dict>(grow));
    return Blueprint{app::blueprint_of(entries, "grow"), "grow", "blueprint.toml", app::to_toml(entries)};
  }
  std::filesystem::path path;
  if (!nb::try_cast(grow, path))
    refuse("grow = {}: expected the path of a blueprint, or a dict with its keys", nb::repr(grow).c_str());
  Blueprint blueprint{.where = "'" + path.string() + "'", .path = path.string()};
  const nb::gil_scoped_release release;
  blueprint.text = app::read_toml(blueprint.path, "grow");
  blueprint.options = app::parse_blueprint(blueprint.text, blueprint.path);
  return blueprint;
}

}  // namespace keelson::python
