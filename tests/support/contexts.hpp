#pragma once

#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::testing {

/// What the tests run on: the name of each backend that can stand alone in a context, and "mix" for the default order
/// of all, where that is more than one.
const std::vector<std::string>& contexts();

/// The backends that a context of contexts() asks, in their order.
std::vector<std::string> backends_of(const std::string& name);

/// Those of contexts() that run whole networks: the ones that contain the backend which makes every op.
std::vector<std::string> network_contexts();

/// The context of that name, made on first use and kept until release_contexts(). Where this build's device is missing,
/// the test ends as skipped, with the reason.
Context& context(const std::string& name);

/// Ends the test at hand as skipped, from wherever it is.
[[noreturn]] void skip(const std::string& why);

/// Frees all contexts; main() calls it before the runtime ends.
void release_contexts();

}  // namespace keelson::testing
