#include "tests/support/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local keelson::testing::Allocations used;

void count(std::size_t bytes) {
  ++used.calls;
  used.bytes += static_cast<std::int64_t>(bytes);
}

void* allocate(std::size_t bytes) {
  count(bytes);
  return std::malloc(bytes > 0 ? bytes : 1);
}

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  count(bytes);
  const auto a = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(a, (bytes + a) / a * a);  // a whole, non-zero multiple
}

void* checked(void* p) {
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

namespace keelson::testing {
Allocations allocations_of_this_thread() { return used; }
}  // namespace keelson::testing

// The replaceable functions, all on malloc, so that the address sanitizer still watches every block.
void* operator new(std::size_t n) { return checked(allocate(n)); }
void* operator new[](std::size_t n) { return checked(allocate(n)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new(std::size_t n, std::align_val_t a) { return checked(allocate(n, a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return checked(allocate(n, a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a); }
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
