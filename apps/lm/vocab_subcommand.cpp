#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/subcommand.hpp"
#include "apps/lm/subcommands.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "apps/lm/text_files.hpp"

namespace keelson::lm {
namespace {

struct VocabOptions {
  TextOptions text;
  VocabularyOptions vocabulary;
  std::string out;
  bool json = false;
};

constexpr std::int32_t shown = 10;  ///< number of most frequent tokens to print

/// The text of a split with the vocabulary applied.
struct Split {
  std::string name;
  TextScan scan;
  std::int64_t left_out = 0;

  /// Share of the tokens that are kept.
  double coverage() const { return 1 - static_cast<double>(left_out) / static_cast<double>(scan.tokens); }
};

std::vector<Split> scan_splits(const TextFiles& files, TokenLevel level, Communicator& world) {
  std::vector<Split> splits;
  const auto add = [&](const char* name, const std::vector<std::string>& paths) {
    if (!paths.empty()) splits.push_back({name, scan_text(paths, level, world)});
  };
  add("train", files.train);
  add("validation", files.validation);
  add("test", files.test);
  return splits;
}

/// The token as printable text.
std::string visible(std::string_view token) {
  if (token == "\n") return "\\n";
  return token.find_first_of(" \t\r") == token.npos ? std::string(token) : fmt::format("'{}'", token);
}

void print_text(const Vocabulary& v, const std::vector<Split>& splits, const std::string& out) {
  for (const auto& s : splits)
    fmt::print("{}: {} tokens of {}, {} types; the vocabulary has {:.2f} % of the tokens, {} become {}\n", s.name,
               s.scan.tokens, s.scan.name(), s.scan.types.size(), 100 * s.coverage(), s.left_out, unknown_token);
  std::vector<std::string> most_frequent;
  for (std::int32_t i = 0; i < std::min(shown, v.size()); ++i)
    most_frequent.push_back(fmt::format("{} {}", visible(v.token(i)), v.count(i)));
  fmt::print("vocabulary: {} {}s{}\nmost frequent: {}\n", v.size(), to_string(v.level()),
             out.empty() ? "" : ", written to " + out, fmt::join(most_frequent, ", "));
}

nlohmann::ordered_json to_json(const Vocabulary& v, const std::vector<Split>& splits) {
  nlohmann::ordered_json j{
      {"level", to_string(v.level())}, {"size", v.size()}, {"hash", fmt::format("{:016x}", v.hash())}};
  for (const auto& s : splits) {
    auto& split = j["splits"][s.name];
    for (const auto& f : s.scan.files) split["files"].push_back(f.path);
    split["tokens"] = s.scan.tokens;
    split["types"] = s.scan.types.size();
    split["left_out"] = s.left_out;
    split["coverage"] = s.coverage();
  }
  for (std::int32_t i = 0; i < std::min(shown, v.size()); ++i)
    j["most_frequent"].push_back({{"token", v.token(i)}, {"count", v.count(i)}});
  return j;
}

ExitCode vocab(const VocabOptions& o, app::Launch& launch) {
  auto splits = scan_splits(find_text_files(o.text), o.text.token_level(), launch.world);
  const Vocabulary vocabulary(splits.front().scan, o.vocabulary);
  if (launch.world.rank() != 0) return ExitCode::done;
  for (auto& s : splits) s.left_out = vocabulary.left_out(s.scan);
  if (!o.out.empty()) vocabulary.save(o.out);
  if (o.json)
    fmt::print("{}\n", to_json(vocabulary, splits).dump());
  else
    print_text(vocabulary, splits, o.out);
  return ExitCode::done;
}

}  // namespace

void define_vocab(app::CommandLine& line) {
  auto o = std::make_shared<VocabOptions>();
  auto& v = line.subcommand("vocab", "Count the tokens of a text and make the vocabulary of its training part",
                            [o](app::Launch& launch) { return vocab(*o, launch); });
  declare_text_options(v, o->text);
  declare_level(v, o->text);
  v.option("--vocab-size", o->vocabulary.max_size,
           "Number of tokens to keep, the most frequent ones; 0: all. The others become <unk>", "N")
      .non_negative();
  v.option("--min-count", o->vocabulary.min_count, "Tokens that occur less often become <unk>", "N").positive();
  v.option_without_default("--out", o->out, "Write the vocabulary to this file", "FILE").output();
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::lm
