#pragma once

#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {

/// Kokkos' kernels on a device that works asynchronously: for the engine it looks like a GPU's context, but it runs on
/// a CPU. Kernels run when a caller waits, on the operands' values at that time. 16-bit values are accepted everywhere;
/// if a kernel has no 16-bit version, operands are converted. In a build with kernels for GPUs the test ends as
/// skipped.
std::unique_ptr<Context> make_fake_async_context();

/// The device of a context made by make_fake_async_context().
FakeAsyncDevice& fake_async_device(Context& context);

}  // namespace keelson::testing
