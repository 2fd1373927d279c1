#include "backends/kokkos/common/caches.hpp"

#include <unistd.h>

namespace keelson::kokkos {

namespace {

[[maybe_unused]] Index told_or(long told, Index otherwise) { return told > 0 ? Index{told} : otherwise; }

}  // namespace

// These names exist only in the GNU C library.
Index first_cache_bytes() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const Index bytes = told_or(::sysconf(_SC_LEVEL1_DCACHE_SIZE), Index{32} << 10);
  return bytes;
#else
  return Index{32} << 10;
#endif
}

Index second_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const Index bytes = told_or(::sysconf(_SC_LEVEL2_CACHE_SIZE), Index{1} << 20);
  return bytes;
#else
  return Index{1} << 20;
#endif
}

}  // namespace keelson::kokkos
