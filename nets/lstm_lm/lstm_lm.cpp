#include "nets/lstm_lm/lstm_lm.hpp"

#include "engine/layers/layers.hpp"

namespace keelson::nets {

Graph lstm_lm(const LstmLmOptions& o) {
  const std::int64_t features = o.embedding > 0 ? o.embedding : o.hidden;
  if (o.vocabulary < 2 || o.unroll < 1)
    refuse("a language model of {} tokens, unrolled over {}: expected at least 2 and 1", o.vocabulary, o.unroll);
  if (o.tied && features != o.hidden)
    refuse("tied output weights need as many features per token as hidden units, not {} and {}", features, o.hidden);
  const Init init = Init::uniform(o.init);
  if (o.sampled_softmax < 0 || o.sampled_softmax >= o.vocabulary)
    refuse("a softmax over {} sampled words of {}: expected fewer than all, or 0 for all", o.sampled_softmax,
           o.vocabulary);
  Graph graph;
  const Var x = graph.input("x", {o.unroll}, DType::s32), y = graph.input("y", {o.unroll}, DType::s32);
  Var v = embedding(x, {o.vocabulary, features, init}, "embedding");
  v = dropout(v, o.dropout, "embedding_dropout");
  const RecurrentOptions recurrent{o.hidden, o.layers, o.dropout, init};
  v = o.cell == ops::CellKind::lstm ? lstm(v, recurrent, "lstm") : gru(v, recurrent, "gru");
  v = dropout(v, o.dropout, "output_dropout");
  // As in the published code, one initialiser is used for all parameters except the LSTM's biases.
  const std::string tied = o.tied ? "embedding" : "";
  if (o.sampled_softmax > 0 && !o.logits_output) {
    sampled_softmax(v, y,
                    {.classes = o.vocabulary,
                     .samples = o.sampled_softmax,
                     .sum_rows = true,
                     .weights_of = tied,
                     .weights_init = init,
                     .bias_init = init},
                    "output");
    return graph;
  }
  v = dense(v, {.features = o.vocabulary, .weights_of = tied, .weights_init = init, .bias_init = init}, "output");
  if (o.logits_output) graph.set_output("logits", v);
  loss(v, y, {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  return graph;
}

const std::vector<LstmLmConfiguration>& lstm_lm_configurations() {
  static const std::vector<LstmLmConfiguration> all{
      {.name = "small", .net = {.hidden = 200, .unroll = 20, .dropout = 0, .init = 0.1f}},
      {.name = "medium",
       .net = {.hidden = 650, .unroll = 35, .dropout = 0.5f, .init = 0.05f},
       .epochs = 39,
       .flat_epochs = 6,
       .decay = 0.8},
      {.name = "large",
       .net = {.hidden = 1500, .unroll = 35, .dropout = 0.65f, .init = 0.04f},
       .epochs = 55,
       .flat_epochs = 14,
       .decay = 1 / 1.15,
       .clip_norm = 10},
  };
  return all;
}

LstmLmConfiguration lstm_lm_configuration(const std::string& name) {
  std::string known;
  for (const auto& c : lstm_lm_configurations()) {
    if (c.name == name) return c;
    known += (known.empty() ? "" : ", ") + c.name;
  }
  refuse("no configuration '{}' of the language model; there are {}", name, known);
}

}  // namespace keelson::nets
