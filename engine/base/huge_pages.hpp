#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace keelson {

/// The size of a huge page.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Asks for 2 MiB pages for the whole ones of them in [memory, memory + bytes), where the system gives them on request
/// (Linux' default): loops that walk through several rows at once then miss the TLB less, and other processes copy from
/// and to this memory faster. Call this before the first touch. Does nothing where the system has no such pages or
/// refuses.
void prefer_huge_pages(void* memory, std::size_t bytes);

/// Frees a HugePageArray.
struct FreeHugePages {
  /// Takes what std::aligned_alloc returned.
  void operator()(void* memory) const { std::free(memory); }
};

/// An array in memory like that of tensors: in huge pages where it is as long as one of them.
template <class T>
using HugePageArray = std::unique_ptr<T[], FreeHugePages>;

/// The elements have no values yet. Throws std::bad_alloc.
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
