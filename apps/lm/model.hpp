#pragma once

#include <memory>
#include <string>

#include "apps/common/evaluation.hpp"
#include "apps/lm/run_options.hpp"
#include "apps/lm/text/text_windows.hpp"

namespace keelson::lm {

/// The data of a language model in a checkpoint, besides its parameters.
struct TrainedModel {
  RunOptions run;
  std::shared_ptr<const Vocabulary> vocabulary;
};

/// Throws InputError for a checkpoint of another program or without a vocabulary.
TrainedModel read_model(const CheckpointReader& checkpoint);

/// Opens a text as the windows of `o`; rank 0 scans it. Collective.
std::unique_ptr<TextWindows> open_text(const std::vector<std::string>& files,
                                       std::shared_ptr<const Vocabulary> vocabulary, const WindowOptions& o,
                                       Communicator& world);

/// Facts from source.json, which lies beside a text of `keelson-lm corpus`.
struct KnownSource {
  double perplexity = 0;  ///< the best possible; 0: unknown
  double unigram = 0, bigram = 0;
};
/// Perplexity 0 if there is no source.json for this file.
KnownSource known_source(const std::string& text_file);

}  // namespace keelson::lm
