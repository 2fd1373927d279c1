#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-minerva. Each function declares one with its options.
namespace keelson::minerva {

void define_generate(app::CommandLine& line);
void define_train(app::CommandLine& line);
void define_evaluate(app::CommandLine& line);
void define_export(app::CommandLine& line);

}  // namespace keelson::minerva
