#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace keelson {

/// The size of a huge page.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Requests 2 MiB pages for all whole pages of [memory, memory + bytes), if the system gives such pages on request
/// (Linux' default). Loops over several rows at once then miss the TLB less, and other processes copy from and to this
/// memory faster. Call this before the first write. Does nothing if the system has no such pages or refuses.
void prefer_huge_pages(void* memory, std::size_t bytes);

/// Frees a HugePageArray.
struct FreeHugePages {
  /// `memory`: a result of std::aligned_alloc.
  void operator()(void* memory) const { std::free(memory); }
};

/// An array with memory like that of tensors: with huge pages if the array is at least as long as a huge page.
template <class T>
using HugePageArray = std::unique_ptr<T[], FreeHugePages>;

/// The elements are not initialised. Throws std::bad_alloc.
template <class T>
HugePageArray<T> make_huge_page_array(std::size_t count) {
  const std::size_t alignment = count * sizeof(T) < huge_page_bytes ? 64 : huge_page_bytes;
  const std::size_t bytes = (count * sizeof(T) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, bytes);
  if (!memory) throw std::bad_alloc();
  prefer_huge_pages(memory, bytes);
  return HugePageArray<T>(static_cast<T*>(memory));
}

}  // namespace keelson
