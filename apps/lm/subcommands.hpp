#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/lm/run_options.hpp"

/// The subcommands of keelson-lm. Each function declares one with its options.
namespace keelson::lm {

void define_vocab(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
/// The texts to evaluate, for a run with these options.
using FilesToJudge = std::function<std::vector<std::string>(const RunOptions& run)>;
/// The subcommand `evaluate` for the folder of an ensemble. `unroll`: tokens per step; 0: as trained. Returns the
/// perplexity of the ensemble. Collective.
double evaluate_ensemble(const app::EvaluationOptions& o, const FilesToJudge& files, std::int64_t unroll,
                         app::Launch& launch);
void define_export(app::CommandLine& line);
void define_sample(app::CommandLine& line);
void define_scaling(app::CommandLine& line);
void define_corpus(app::CommandLine& line);

}  // namespace keelson::lm
