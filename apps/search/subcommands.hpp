#pragma once

#include "apps/common/app.hpp"

/// The subcommands of keelson-search, each in a file of its own.
namespace keelson::search {

void define_run(app::CommandLine& line);
void define_resume(app::CommandLine& line);
void define_status(app::CommandLine& line);
void define_best(app::CommandLine& line);
void define_report(app::CommandLine& line);
void define_lr_range(app::CommandLine& line);
void define_replay(app::CommandLine& line);
void define_compare(app::CommandLine& line);

}  // namespace keelson::search
