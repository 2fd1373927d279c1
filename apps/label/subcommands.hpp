#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-label. Each function declares one with its options.
namespace keelson::label {

void define_generate(app::CommandLine& line);
void define_start(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_lr_range(app::CommandLine& line);
void define_suggest(app::CommandLine& line);
void define_label(app::CommandLine& line);
void define_serve(app::CommandLine& line);
void define_report(app::CommandLine& line);
void define_simulate(app::CommandLine& line);

}  // namespace keelson::label
