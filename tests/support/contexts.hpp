#pragma once

#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::testing {

/// The contexts for tests: the name of each backend that can be alone in a context, and "mix" for all backends in the
/// default order, if there are several.
const std::vector<std::string>& contexts();

/// The backends of a context of contexts(), in order.
std::vector<std::string> backends_of(const std::string& name);

/// The contexts that can run whole networks: those that contain the backend that makes every op.
std::vector<std::string> network_contexts();

/// The context of that name, made on first use and kept until release_contexts(). If this build's device is missing,
/// the test ends as skipped, with the reason.
Context& context(const std::string& name);

/// Ends the present test as skipped. May be called anywhere in the test.
[[noreturn]] void skip(const std::string& why);

/// Frees all contexts; main() calls it before the runtime ends.
void release_contexts();

}  // namespace keelson::testing
