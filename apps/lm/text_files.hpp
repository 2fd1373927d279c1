#pragma once

#include <string>
#include <vector>

#include "apps/common/verb.hpp"
#include "apps/lm/text/token_reader.hpp"

/// Which files hold the text, for all verbs.
namespace keelson::lm {

struct TextOptions {
  std::vector<std::string> data, train, validation, test;
  std::string level = "word";

  TokenLevel token_level() const { return level == "word" ? TokenLevel::word : TokenLevel::character; }
};

/// Declares --data, --train, --validation and --test.
void declare_text_options(app::Verb& verb, TextOptions& options);
/// Declares --level, for verbs where no vocabulary says it.
app::Option& declare_level(app::Verb& verb, TextOptions& options);

/// The files of each split, which are read one after the other; validation and test may be empty.
struct TextFiles {
  std::vector<std::string> train, validation, test;
};

/// --data with a folder: ptb.train.txt, ptb.valid.txt and ptb.test.txt, else train.txt, valid.txt (or validation.txt)
/// and test.txt; with files: the training text. --train, --validation and --test replace a split. Throws InputError
/// if there is no training text, naming what was looked for.
TextFiles find_text_files(const TextOptions& options);

}  // namespace keelson::lm
