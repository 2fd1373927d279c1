#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-lm. Each function declares one with its options.
namespace keelson::lm {

void define_vocab(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
void define_export(app::CommandLine& line);
void define_sample(app::CommandLine& line);
void define_scaling(app::CommandLine& line);
void define_corpus(app::CommandLine& line);

}  // namespace keelson::lm
