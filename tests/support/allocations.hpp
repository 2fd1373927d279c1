#pragma once

#include <cstdint>

namespace keelson::testing {

/// Heap use by this thread since it started, of the whole program with all its libraries. With glibc every malloc is
/// counted; elsewhere, and under sanitizers (which need malloc for themselves), only operator new.
struct Allocations {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

Allocations allocations_of_this_thread();

/// The allocations of `work` on this thread.
template <class Work>
Allocations allocations_of(Work&& work) {
  const auto before = allocations_of_this_thread();
  work();
  const auto after = allocations_of_this_thread();
  return {after.calls - before.calls, after.bytes - before.bytes};
}

}  // namespace keelson::testing
