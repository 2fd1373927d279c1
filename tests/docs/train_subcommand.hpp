#pragma once

#include "apps/common/app.hpp"

namespace keelson::digits {

/// Declares the subcommand `train`.
void define_train(app::CommandLine& line);

}  // namespace keelson::digits
