#pragma once

#include <memory>
#include <string>

#include "apps/common/evaluation.hpp"
#include "apps/lm/run_options.hpp"
#include "apps/lm/text/text_windows.hpp"

namespace keelson::lm {

/// What a checkpoint holds of a language model besides its parameters.
struct TrainedModel {
  RunOptions run;
  std::shared_ptr<const Vocabulary> vocabulary;
};

/// Throws InputError for a checkpoint of another program or without a vocabulary.
TrainedModel read_model(const CheckpointReader& checkpoint);

/// A text as the windows of `o`; scanned by rank 0. Collective.
std::unique_ptr<TextWindows> open_text(const std::vector<std::string>& files,
                                       std::shared_ptr<const Vocabulary> vocabulary, const WindowOptions& o,
                                       Communicator& world);

/// What source.json beside a text of `keelson-lm corpus` says.
struct KnownSource {
  double perplexity = 0;  ///< the best that any model can reach; 0: unknown
  double unigram = 0, bigram = 0;
};
/// Perplexity 0 where there is none for this file.
KnownSource known_source(const std::string& text_file);

}  // namespace keelson::lm
