#include "apps/common/sample_files.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

/// The first folder of these names in `folder`. `option`: names the data otherwise.
std::string find_split(const std::string& folder, const std::vector<std::string>& names, const std::string& option) {
  if (!fs::exists(folder)) refuse("--data {}: no such folder", folder);
  for (const auto& name : names)
    if (const auto path = fs::path(folder) / name; fs::exists(path)) return path.string();
  refuse("--data {}: expected a folder {} in it; name the data with {}", folder, fmt::join(names, " or "), option);
}

}  // namespace

void declare_files(SampleFiles& files, Subcommand& v) {
  const auto group = v.in(OptionGroup::data);
  v.option_without_default("--train", files.train, "Training data: file, folder or pattern", "PATH")
      .stored()
      .differs_between_ranks();
  v.option_without_default("--validation", files.validation, "Validation data: file, folder or pattern", "PATH")
      .stored()
      .differs_between_ranks();
  v.flag("--shuffle", files.shuffle, "Use another order of samples in each epoch").stored();
  v.option("--skip-broken", files.skip_broken,
           "Read all samples before training, and leave out up to so many that cannot be read or are not finite", "N")
      .non_negative()
      .stored()
      .same_for_members();
}

void declare_training_folder(std::string& data, Subcommand& v) {
  const auto group = v.in(OptionGroup::data);
  v.option_without_default("--data", data, "Folder with train/ and validation/ in it", "DIR")
      .not_stored()
      .differs_between_ranks();
}

void declare_held_out_data(std::string& data, Subcommand& v) {
  const auto group = v.in(OptionGroup::data);
  v.option_without_default("--data", data,
                           "Data: a folder (its test/ or validation/ if it has one), file or pattern; default: "
                           "the run's validation data",
                           "PATH")
      .differs_between_ranks();
}

void complete_files(SampleFiles& files, const std::string& data) {
  if (!data.empty() && files.train.empty()) files.train = find_split(data, {"train"}, "--train");
  if (!data.empty() && files.validation.empty())
    files.validation = find_split(data, {"validation", "val"}, "--validation");
  if (files.train.empty())
    refuse("no training data: give --data DIR (with train/ and validation/ in it) or --train PATH");
}

void store_paths(const SampleFiles& files, Config& config) {
  config["train"] = fs::absolute(files.train).string();
  config["validation"] = files.validation.empty() ? "" : fs::absolute(files.validation).string();
}

std::string find_held_out_data(const std::string& data, const SampleFiles& of_run) {
  if (data.empty()) {
    if (of_run.validation.empty()) refuse("the run had no validation data: give --data");
    return of_run.validation;
  }
  for (const char* split : {"test", "validation"})
    if (const auto path = fs::path(data) / split; fs::exists(path)) return path.string();
  return data;
}

}  // namespace keelson::app
