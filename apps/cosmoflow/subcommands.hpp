#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-cosmoflow. Each function declares one with its options.
namespace keelson::cosmoflow {

void define_generate(app::CommandLine& line);
void define_rechunk(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
void define_export(app::CommandLine& line);

}  // namespace keelson::cosmoflow
