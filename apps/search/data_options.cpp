#include "apps/search/data_options.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::search {

void declare(DataOptions& o, app::Subcommand& v) {
  v.option_without_default(
       "--data", o.data,
       "Labelled data: a file, a folder or a pattern. Tables (CSV, Parquet) have a sample in each row; "
       "arrays (HDF5, NetCDF, NumPy) have the samples along their first dimension",
       "PATH")
      .stored();
  v.option_without_default("--validation", o.validation,
                           "Data that choose between networks; by default a part of --data", "PATH")
      .stored();
  v.option_without_default("--test", o.test, "Data on which the best network is evaluated at the end", "PATH").stored();
  v.option("--holdout", o.holdout, "Part of --data that is held out for validation, at random", "PART")
      .between(0.01, 0.9)
      .stored();
  v.option("--split-seed", o.split_seed, "Seed of the held-out part", "N").stored();
  v.flag("--classes", o.classes, "The target is a class, not a number").stored();
  v.option_without_default("--target", o.targets, "Columns of a table to predict; default: the last one", "COLUMN,...")
      .comma_separated()
      .stored();
  v.option_without_default("--features", o.features, "Columns of a table to read; default: all others", "COLUMN,...")
      .comma_separated()
      .stored();
  v.option("--x", o.x, "Array of what the networks read", "NAME").stored();
  v.option("--y", o.y, "Array of what the networks predict", "NAME").stored();
  v.option("--layout", o.layout, "Where the channels of a sample are in --x")
      .one_of({"channels-last", "channels-first", "none"})
      .stored();
  v.flag("--one-per-file", o.one_per_file, "Each file of arrays is one sample").stored();
  v.option_without_default("--missing", o.missing,
                           "Number in the place of missing values of x; default: they are refused", "NUMBER")
      .stored();
}

void fill_from_log(app::Subcommand& v, const Settings& settings, const std::string& folder) {
  app::Config config;
  const auto known = v.values();
  const auto logged = nlohmann::json::parse(settings.config, nullptr, false);
  if (!logged.is_object()) refuse("{}: the log has no options of the program", folder);
  for (const auto& [name, value] : logged.items()) {
    if (!known.contains(name)) continue;
    if (!value.is_string()) refuse("{}: the log has the option {} with the value {}", folder, name, value.dump());
    config[name] = value.get<std::string>();
  }
  v.fill(config, folder);
}

void require_named_data(const DataOptions& o, const std::string& folder) {
  if (o.data.empty())
    refuse(
        "{0}: the log does not name the data, since the search began in Python with a data set; go on there: "
        "keelson.search(data, resume=\"{0}\")",
        folder);
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse("{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace keelson::search
