#include "tests/support/allocations.hpp"

#include <cerrno>
#include <cstdlib>
#include <new>

// These functions replace the program's allocation functions. All memory comes from and goes back to the C library's
// own allocator, so functions that are not replaced here still work with it.

namespace {

// Constant-initialised, since malloc is called before any constructor runs.
constinit thread_local keelson::testing::Allocations used;

void count(std::size_t bytes) {
  ++used.calls;
  used.bytes += static_cast<std::int64_t>(bytes);
}

}  // namespace

namespace keelson::testing {
Allocations allocations_of_this_thread() { return used; }
}  // namespace keelson::testing

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
  count(n);
  return __libc_malloc(n);
}
void* calloc(std::size_t items, std::size_t n) {
  count(items * n);
  return __libc_calloc(items, n);
}
void* realloc(void* p, std::size_t n) {
  count(n);
  return __libc_realloc(p, n);
}
void* memalign(std::size_t alignment, std::size_t n) {
  count(n);
  return __libc_memalign(alignment, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) { return memalign(alignment, n); }
int posix_memalign(void** p, std::size_t alignment, std::size_t n) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* made = memalign(alignment, n);
  if (!made) return ENOMEM;
  *p = made;
  return 0;
}
}

#else

namespace {

void* allocate(std::size_t bytes) {
  count(bytes);
  return std::malloc(bytes > 0 ? bytes : 1);
}

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  count(bytes);
  const auto a = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(a, (bytes + a) / a * a);  // a non-zero multiple of the alignment
}

void* checked(void* p) {
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

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

#endif
