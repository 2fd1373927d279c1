#pragma once

#include "apps/common/app.hpp"

namespace keelson::digits {

/// Declares the verb `train`.
void define_train(app::CommandLine& line);

}  // namespace keelson::digits
