#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "apps/common/evaluation.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/subcommands.hpp"
#include "backends/registry.hpp"
#include "engine/base/philox.hpp"
#include "engine/execute/executor.hpp"

namespace keelson::lm {
namespace {

struct SampleOptions : app::EvaluationOptions {
  std::string prompt;
  std::int64_t tokens = 100, top_k = 0;
  double temperature = 1;
  std::uint64_t seed = 1;
};

/// Runs the model token by token.
class Sampler {
 public:
  Sampler(const CheckpointReader& checkpoint, const TrainedModel& model, Context& context)
      : context_(context),
        graph_(app::with_stored_widths(nets::lstm_lm(single_token(model)), checkpoint)),
        parameters_(graph_, context, checkpoint.state().seed),
        executor_(graph_, parameters_, {.batch = 1, .training = false}) {
    checkpoint.load(network_name(model.run), parameters_, std::nullopt);
    logits_.resize(static_cast<std::size_t>(model.vocabulary->size()));
  }

  /// The logits of the token after `id`. The model has seen the tokens of all earlier calls.
  const std::vector<float>& next(std::int32_t id) {
    const Tensor x = executor_.input("x");
    context_.device().copy_from_host(x.raw(), &id, sizeof id);
    executor_.forward({});
    executor_.carry_states();
    context_.read_plain(executor_.output("logits"), logits_.data());
    return logits_;
  }

 private:
  static nets::LstmLmOptions single_token(const TrainedModel& model) {
    auto o = net_options(model.run, model.vocabulary->size(), 1);
    o.logits_output = true;
    return o;
  }

  Context& context_;
  Graph graph_;
  Parameters parameters_;
  Executor executor_;
  std::vector<float> logits_;
};

/// Draws a token from softmax(logits / temperature) over the top_k most probable tokens (0: over all). `uniform` in [0,
/// 1).
std::int32_t draw(const std::vector<float>& logits, const SampleOptions& o, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto more = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto keep = o.temperature == 0 ? 1
                    : o.top_k > 0      ? std::min<std::size_t>(order.size(), static_cast<std::size_t>(o.top_k))
                                       : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(), more);
  order.resize(keep);
  const double largest = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> weight;
  double sum = 0;
  for (const auto id : order) {
    const double scale = o.temperature > 0 ? o.temperature : 1;
    weight.push_back(std::exp((logits[static_cast<std::size_t>(id)] - largest) / scale));
    sum += weight.back();
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < order.size(); ++i)
    if ((left -= weight[i]) < 0) return order[i];
  return order.back();
}

/// Writes tokens as text: words separated by spaces, sentences by newlines.
class Writer {
 public:
  explicit Writer(TokenLevel level) : words_(level == TokenLevel::word) {}
  void write(std::string_view token) {
    if (words_ && token == "<eos>") {
      fmt::print("\n");
      at_start_ = true;
      return;
    }
    fmt::print("{}{}", words_ && !at_start_ ? " " : "", token);
    at_start_ = false;
  }

 private:
  bool words_, at_start_ = true;
};

/// The prompt's tokens, cut as a text would be.
std::vector<std::string> tokens_of(const std::string& prompt, TokenLevel level) {
  std::vector<std::string> tokens;
  if (level == TokenLevel::word) {
    std::istringstream in(prompt);
    for (std::string word; in >> word;) tokens.push_back(word);
    return tokens;
  }
  for (const char c : prompt) {  // a byte 10xxxxxx continues a code point
    if (!tokens.empty() && (static_cast<unsigned char>(c) & 0xc0) == 0x80)
      tokens.back() += c;
    else
      tokens.emplace_back(1, c);
  }
  return tokens;
}

ExitCode sample(const SampleOptions& o, app::Launch& launch) {
  if (launch.world.rank() != 0) return ExitCode::done;
  if (o.checkpoint.empty()) refuse("give --checkpoint: a checkpoint or a run's folder");
  const CheckpointReader checkpoint(o.checkpoint, true, nullptr);
  const auto model = read_model(checkpoint);
  const auto& vocabulary = *model.vocabulary;
  const auto prompt = tokens_of(o.prompt, vocabulary.level());
  for (const auto& t : prompt)
    if (!vocabulary.contains(t))
      fmt::print(stderr, "keelson-lm: '{}' is not in the model's vocabulary of {} tokens: read as <unk>\n", t,
                 vocabulary.size());
  const auto context = backends::make_context(o.device.device);
  Sampler sampler(checkpoint, model, *context);
  Writer writer(vocabulary.level());
  // The model starts as after the end of another text.
  std::int32_t last = vocabulary.id(vocabulary.level() == TokenLevel::word ? "<eos>" : "\n");
  for (const auto& t : prompt) {
    sampler.next(last);
    last = vocabulary.id(t);
    writer.write(vocabulary.token(last));
  }
  const philox::Key key{o.seed, philox::stream_of("sample"), 0};
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    last = draw(sampler.next(last), o, philox::uniform(key, static_cast<std::uint64_t>(i)));
    writer.write(vocabulary.token(last));
    std::fflush(stdout);
  }
  fmt::print("\n");
  return ExitCode::done;
}

}  // namespace

void define_sample(app::CommandLine& line) {
  auto o = std::make_shared<SampleOptions>();
  auto& v = line.subcommand("sample", "Write text with a trained language model",
                            [o](app::Launch& launch) { return sample(*o, launch); });
  declare_checkpoint(*o, v);
  v.option("--tokens", o->tokens, "Number of tokens to write", "N").positive();
  v.option_without_default("--prompt", o->prompt, "Text to continue", "TEXT");
  v.option("--temperature", o->temperature, "Below 1: prefer likelier tokens; 0: always take the likeliest", "X")
      .non_negative();
  v.option("--top-k", o->top_k, "Draw only from this number of likeliest tokens; 0: from all", "N").non_negative();
  v.option("--seed", o->seed, "Seed of the draws");
}

}  // namespace keelson::lm
