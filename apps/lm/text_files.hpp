#pragma once

#include <string>
#include <vector>

#include "apps/common/subcommand.hpp"
#include "apps/lm/text/token_reader.hpp"

/// Options that name the files of a text, for all subcommands.
namespace keelson::lm {

struct TextOptions {
  std::vector<std::string> data, train, validation, test;
  std::string level = "word";

  TokenLevel token_level() const { return level == "word" ? TokenLevel::word : TokenLevel::character; }
};

/// Declares --data, --train, --validation and --test.
void declare_text_options(app::Subcommand& subcommand, TextOptions& options);
/// Declares --level, for subcommands without a vocabulary.
app::Option& declare_level(app::Subcommand& subcommand, TextOptions& options);

/// The files of each split, which are read one after the other; validation and test may be empty.
struct TextFiles {
  std::vector<std::string> train, validation, test;
};

/// Finds the files. --data with a folder: ptb.train.txt, ptb.valid.txt and ptb.test.txt, else train.txt, valid.txt (or
/// validation.txt) and test.txt; with files: the training text. --train, --validation and --test replace a split. If
/// there is no training text, throws InputError that names the expected files.
TextFiles find_text_files(const TextOptions& options);

}  // namespace keelson::lm
