#include "apps/lm/text_files.hpp"

#include <filesystem>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

struct Names {
  const char* train;
  std::vector<const char*> validation;
  const char* test;
};

/// The file names of splits in a folder.
const Names conventions[] = {
    {"ptb.train.txt", {"ptb.valid.txt"}, "ptb.test.txt"},
    {"train.txt", {"valid.txt", "validation.txt"}, "test.txt"},
};

std::vector<std::string> if_there(const fs::path& folder, const std::vector<const char*>& names) {
  for (const auto* name : names)
    if (fs::exists(folder / name)) return {(folder / name).string()};
  return {};
}

TextFiles files_in(const fs::path& folder) {
  for (const auto& names : conventions)
    if (fs::exists(folder / names.train))
      return {if_there(folder, {names.train}), if_there(folder, names.validation), if_there(folder, {names.test})};
  refuse("{}: has neither {} nor {}. Expected one of them; give the training text itself with --train FILE",
         folder.string(), conventions[0].train, conventions[1].train);
}

TextFiles files_of_data(const std::vector<std::string>& data) {
  for (const auto& path : data) {
    if (!fs::exists(path)) refuse("{}: does not exist. Expected a folder with texts, or a text file", path);
    if (!fs::is_directory(path)) continue;
    if (data.size() > 1)
      refuse("{}: is a folder, one of {} values of --data. Expected one folder, or files", path, data.size());
    return files_in(path);
  }
  return {data, {}, {}};
}

}  // namespace

void declare_text_options(app::Subcommand& subcommand, TextOptions& o) {
  subcommand
      .option_without_default(
          "--data", o.data,
          "A folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt, or train.txt, valid.txt and "
          "test.txt; or files: the training text",
          "DIR|FILE...")
      .differs_between_ranks();
  subcommand.option_without_default("--train", o.train, "Training text, instead of that in --data", "FILE...")
      .differs_between_ranks();
  subcommand
      .option_without_default("--validation", o.validation, "Validation text, instead of that in --data", "FILE...")
      .differs_between_ranks();
  subcommand.option_without_default("--test", o.test, "Test text, instead of that in --data", "FILE...")
      .differs_between_ranks();
}

app::Option& declare_level(app::Subcommand& subcommand, TextOptions& o) {
  return subcommand.option("--level", o.level, "What a token is: a word, or a character").one_of({"word", "char"});
}

TextFiles find_text_files(const TextOptions& o) {
  TextFiles files;
  if (!o.data.empty()) files = files_of_data(o.data);
  if (!o.train.empty()) files.train = o.train;
  if (!o.validation.empty()) files.validation = o.validation;
  if (!o.test.empty()) files.test = o.test;
  for (const auto* split : {&files.train, &files.validation, &files.test})
    for (const auto& file : *split) protect_input(file);
  if (files.train.empty()) refuse("give --data: a folder with train.txt and the like, or text files; or --train FILE");
  return files;
}

}  // namespace keelson::lm
