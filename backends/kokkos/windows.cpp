#include "backends/kokkos/windows.hpp"

#include <cstdint>

namespace keelson::kokkos {

namespace {

/// Values are moved as they are, as many bytes at once as channels and addresses allow.
struct alignas(16) Bytes16 {
  std::uint64_t halves[2];
};

/// Calls use(Unit{}) with the widest unit of which `run` bytes are a multiple and in which all addresses are whole.
template <class Use>
void with_unit(std::size_t run, std::size_t addresses, const Use& use) {
  const auto all = run | addresses;
  if (all % 16 == 0) return use(Bytes16{});
  if (all % 8 == 0) return use(std::uint64_t{});
  if (all % 4 == 0) return use(std::uint32_t{});
  use(std::uint16_t{});
}

std::size_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// One unit of one tap of one row per item, the units of a row side by side. Traffic: the matrix once out; the tensor,
/// of which neighbouring windows share most, once in.
template <class Unit>
struct GatherWindows {
  Windows w;
  const Unit* in;
  Index in_step;                   ///< units from one element of `in` to the next
  std::uint32_t units, tap_count;  ///< of a tap; of a window
  Index first;
  Unit* matrix;

  KOKKOS_FUNCTION void operator()(Index item) const {
    auto rest = static_cast<std::uint32_t>(item);  // 64-bit division costs more than the copy
    const std::uint32_t unit = rest % units;
    rest /= units;
    std::uint32_t tap = rest % tap_count;
    auto row = static_cast<std::uint32_t>(first + rest / tap_count);
    Index element = 0, step = 1;
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
      const std::uint32_t out = static_cast<std::uint32_t>(w.out[d]), taps = static_cast<std::uint32_t>(w.taps[d]);
      const auto q = static_cast<std::int32_t>(row % out), t = static_cast<std::int32_t>(tap % taps);
      row /= out;
      tap /= taps;
      std::int32_t at = q * w.mul[d] + t * w.step[d] + w.offset[d];
      inside = inside && at >= 0 && at % w.div[d] == 0;
      at /= w.div[d];
      inside = inside && at < w.in[d];
      element += at * step;
      step *= w.in[d];
    }
    element += row * step;  // what is left of the row is the sample
    matrix[item] = inside ? in[element * in_step + unit] : Unit{};
  }
};

template <class Unit>
struct TapsBeforeFilters {
  const Unit* weights;
  Index filters, taps, units;
  Unit* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index unit = item % units, row = item / units;
    const Index filter = row % filters, tap = row / filters % taps, group = row / filters / taps;
    dst[item] = weights[((group * filters + filter) * taps + tap) * units + unit];
  }
};

}  // namespace

bool Windows::trivial() const {
  for (int d = 0; d < 3; ++d)
    if (taps[d] != 1 || out[d] != in[d] || mul[d] != 1 || offset[d] != 0 || div[d] != 1) return false;
  return true;
}

void gather_windows(const Windows& w, const void* in, Index in_channels, Index channels, std::size_t bytes, Index first,
                    Index rows, void* matrix) {
  constexpr const char* label = "keelson::conv::windows";
  const auto run = static_cast<std::size_t>(channels) * bytes, step = static_cast<std::size_t>(in_channels) * bytes;
  with_unit(run, step | address(in) | address(matrix), [&](auto tag) {
    using Unit = decltype(tag);
    const auto units = static_cast<Index>(run / sizeof(Unit));
    const Index items = rows * w.tap_count() * units;
    KEELSON_EXPECT(items <= Index{UINT32_MAX} && w.rows() <= Index{UINT32_MAX});
    launch(label, items,
           GatherWindows<Unit>{w, static_cast<const Unit*>(in), static_cast<Index>(step / sizeof(Unit)),
                               static_cast<std::uint32_t>(units), static_cast<std::uint32_t>(w.tap_count()), first,
                               static_cast<Unit*>(matrix)});
  });
}

void taps_before_filters(const void* weights, Index groups, Index filters, Index taps, Index channels,
                         std::size_t bytes, void* dst) {
  constexpr const char* label = "keelson::conv::taps_before_filters";
  const auto run = static_cast<std::size_t>(channels) * bytes;
  with_unit(run, address(weights) | address(dst), [&](auto tag) {
    using Unit = decltype(tag);
    const auto units = static_cast<Index>(run / sizeof(Unit));
    launch(label, groups * taps * filters * units,
           TapsBeforeFilters<Unit>{static_cast<const Unit*>(weights), filters, taps, units, static_cast<Unit*>(dst)});
  });
}

}  // namespace keelson::kokkos
