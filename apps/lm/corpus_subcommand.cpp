#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/subcommand.hpp"
#include "apps/lm/source/corpus.hpp"
#include "apps/lm/source/entropy.hpp"
#include "apps/lm/subcommands.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

struct CorpusOptions {
  ChainOptions chain;
  std::int64_t train = 1'000'000, validation = 100'000, test = 100'000;  ///< tokens
  std::string out;
  bool json = false;
};

/// Thrown between pieces of text when the user or the batch system wants the program to end.
struct Interrupted {};

/// Prints a line from time to time.
class Progress {
 public:
  Progress(std::string name, std::int64_t tokens, bool quiet)
      : name_(std::move(name)), tokens_(tokens), quiet_(quiet) {}
  void operator()(std::int64_t written) {
    if (Interrupt::requested()) throw Interrupted();
    const auto now = std::chrono::steady_clock::now();
    if (quiet_ || now - last_ < std::chrono::seconds(10)) return;
    last_ = now;
    fmt::print("{}: {:.1f} of {:.1f} million tokens\n", name_, static_cast<double>(written) * 1e-6,
               static_cast<double>(tokens_) * 1e-6);
    std::fflush(stdout);
  }

 private:
  std::string name_;
  std::int64_t tokens_;
  bool quiet_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    refuse("{}: cannot be made: {}. Expected --out to name a new or existing folder", folder.string(), error.message());
}

/// Refuses to replace texts of the same names that another program made, such as the Penn Treebank's.
void check_replaceable(const fs::path& folder) {
  if (fs::exists(folder / "source.json")) return;
  for (const char* file : {"ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"})
    if (fs::exists(folder / file))
      refuse("{}: exists already, and without source.json beside it was not made by this program; choose another --out",
             (folder / file).string());
}

/// Facts about the source; perplexities are per token, <eos> included.
nlohmann::ordered_json describe_source(const TopicChain& chain, const ChainOptions& o) {
  const auto pi = stationary(chain);
  const double rate = entropy_rate(chain, pi);
  double ends = 0;
  for (std::int32_t state = chain.eos(); state < chain.states(); state += chain.tokens())
    ends += pi[static_cast<std::size_t>(state)];
  const auto ngram = [&](int order) { return std::exp(ngram_entropy(chain, pi, order)); };
  return {
      {"seed", o.seed},
      {"words", o.words},
      {"branching", o.branching},
      {"topics", o.topics},
      {"sentence", o.sentence},
      {"tokens_per_sentence", 1 / ends},
      {"entropy_rate_nats", rate},
      {"perplexity", {{"best", std::exp(rate)}, {"unigram", ngram(1)}, {"bigram", ngram(2)}, {"trigram", ngram(3)}}}};
}

void print_text(const nlohmann::ordered_json& j, const fs::path& out) {
  for (const auto& [file, tokens] : j["tokens"].items())
    fmt::print("{}: {} tokens\n", (out / file).string(), tokens.get<std::int64_t>());
  const auto perplexity = [&](const char* of) { return j["perplexity"][of].get<double>(); };
  fmt::print("entropy rate: {:.6f} nats per token (<eos> included), so the best possible perplexity is {:.4f}\n",
             j["entropy_rate_nats"].get<double>(), perplexity("best"));
  fmt::print("the best possible for a model that sees fewer tokens: unigram {:.4f}, bigram {:.4f}, trigram {:.4f}\n",
             perplexity("unigram"), perplexity("bigram"), perplexity("trigram"));
}

ExitCode corpus(const CorpusOptions& o, app::Launch& launch) {
  if (o.out.empty()) refuse("give --out: the folder for ptb.train.txt, ptb.valid.txt and ptb.test.txt");
  if (launch.world.rank() != 0) return ExitCode::done;
  const auto chain = make_chain(o.chain);
  auto source = describe_source(chain, o.chain);
  const auto words = made_up_words(o.chain.words, o.chain.seed);
  const fs::path out = o.out;
  check_replaceable(out);
  make_folder(out);
  write_atomically(out / "source.json",
                   source.dump(2) + "\n");  // from here on the folder is known to be made by this program
  Interrupt::install();
  try {
    std::uint64_t split = 0;
    for (const auto& [file, tokens] :
         {std::pair("ptb.train.txt", o.train), {"ptb.valid.txt", o.validation}, {"ptb.test.txt", o.test}})
      source["tokens"][file] =
          write_corpus(chain, words, o.chain.seed, split++, tokens, out / file, Progress(file, tokens, o.json));
  } catch (const Interrupted&) {
    fmt::print("interrupted; the same command writes the text again\n");
    return ExitCode::interrupted;
  }
  write_atomically(out / "source.json", source.dump(2) + "\n");
  if (o.json)
    fmt::print("{}\n", source.dump());
  else
    print_text(source, out);
  return ExitCode::done;
}

}  // namespace

void define_corpus(app::CommandLine& line) {
  auto o = std::make_shared<CorpusOptions>();
  auto& v = line.subcommand(
      "corpus", "Write made-up text with a known entropy rate, so that the perplexity of a perfect model is known",
      [o](app::Launch& launch) { return corpus(*o, launch); });
  v.option_without_default("--out", o->out, "Folder for ptb.train.txt, ptb.valid.txt, ptb.test.txt and source.json",
                           "DIR");
  v.option("--words", o->train, "Tokens of training text, newlines included", "N").positive();
  v.option("--validation-words", o->validation, "Tokens of validation text", "N").positive();
  v.option("--test-words", o->test, "Tokens of test text", "N").positive();
  v.option("--vocab-size", o->chain.words, "Different words", "N");
  v.option("--branching", o->chain.branching, "Words that may follow a word, besides the end of the sentence", "N");
  v.option("--topics", o->chain.topics,
           "Number of topics; a sentence's first word determines its topic, and the other words depend on it", "N");
  v.option("--sentence", o->chain.sentence, "Approximate mean length of sentences", "WORDS");
  v.option("--seed", o->chain.seed, "Source and text depend only on the seed and the options above", "N");
  v.flag("--json", o->json, "Print one JSON object, as in source.json");
}

}  // namespace keelson::lm
