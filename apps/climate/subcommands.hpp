#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-climate. Each function declares one with its options.
namespace keelson::climate {

void define_generate(app::CommandLine& line);
void define_rechunk(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
void define_export(app::CommandLine& line);
void define_label(app::CommandLine& line);
void define_plot(app::CommandLine& line);

}  // namespace keelson::climate
