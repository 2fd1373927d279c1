#pragma once

#include <string>

#include "apps/common/app.hpp"
#include "apps/common/evaluation.hpp"

/// The subcommands of keelson-cosmoflow. Each function declares one with its options.
namespace keelson::cosmoflow {

void define_generate(app::CommandLine& line);
void define_rechunk(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
/// The subcommand `evaluate` for the folder of an ensemble. `data`: --data. Collective.
ExitCode evaluate_ensemble(const app::EvaluationOptions& o, const std::string& data, app::Launch& launch);
void define_export(app::CommandLine& line);

}  // namespace keelson::cosmoflow
