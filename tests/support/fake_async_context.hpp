#pragma once

#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {

/// Kokkos' kernels on a device that works asynchronously: what a GPU's context looks like to the engine, on a CPU.
/// Kernels run when somebody waits, on operands as they are then. Values of 16 bits are taken everywhere: where a
/// kernel has no such version, they are converted around it. The test ends as skipped in a build whose kernels are a
/// GPU's.
std::unique_ptr<Context> make_fake_async_context();

/// The device of such a context.
FakeAsyncDevice& fake_async_device(Context& context);

}  // namespace keelson::testing
