#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-bench, each in a file of its own.
namespace keelson::bench {

void define_step(app::CommandLine& line);
void define_ops(app::CommandLine& line);
void define_allreduce(app::CommandLine& line);
void define_input(app::CommandLine& line);
void define_scale(app::CommandLine& line);
void define_compare(app::CommandLine& line);
void define_stack(app::CommandLine& line);

}  // namespace keelson::bench
