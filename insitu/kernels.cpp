#include "insitu/kernels.hpp"

#include <type_traits>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/parallel_sum.hpp"

namespace keelson::insitu {
namespace {

using kokkos::ceil_div;
using kokkos::Index;

/// The cells of a box, divided into runs along the last dimension: a run is a row on a CPU, a cell on a GPU.
struct Box {
  Index extents[3];
  Index run;             ///< cells of a run
  Divider by_extent[3];  ///< of a slot's planes, a plane's rows, and a row's runs

  Box(const Triple& e, Index slots) : extents{e[0], e[1], e[2]}, run(kokkos::runs_on_host ? e[2] : 1) {
    const Index all = slots * runs(), per_row = ceil_div(extents[2], run);
    by_extent[0] = Divider(extents[0], all), by_extent[1] = Divider(extents[1], all);
    by_extent[2] = Divider(per_row, all);
  }
  Index runs() const { return extents[0] * extents[1] * ceil_div(extents[2], run); }

  /// Calls use(slot, z, y, first x, end x) for run i of all slots.
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void with_run(Index i, const Use& use) const {
    const Index x = by_extent[2].split(i) * run, y = by_extent[1].split(i), z = by_extent[0].split(i);
    use(i, z, y, x, x + run < extents[2] ? x + run : extents[2]);
  }
};

/// Calls body(slot, z, y, first x, end x) for all runs of all slots.
template <class Body>
struct Runs {
  Box box;
  Body body;
  KOKKOS_FUNCTION void operator()(Index i) const { box.with_run(i, body); }
};

template <class Body>
void for_each_run(const char* label, Index slots, const Triple& extents, const Body& body) {
  const Box box(extents, slots);
  kokkos::launch(label, slots * box.runs(), Runs<Body>{box, body});
}

KOKKOS_INLINE_FUNCTION Index clamped(Index i, Index low, Index high) { return i < low ? low : i > high ? high : i; }

/// A field with its tiles, as kernels use it.
template <class T>
struct View {
  T* interior;  ///< the first interior cell
  Index strides[3], low[3], high[3], halo[3];
  const Index* origins;

  explicit View(const TiledField& t)
      : interior(reinterpret_cast<T*>(t.data) + t.field->origin()), origins(t.origins + 3 * t.first) {
    for (std::size_t d = 0; d < 3; ++d) {
      strides[d] = t.field->strides[d];
      low[d] = -t.field->ghosts[d];
      high[d] = t.field->extents[d] - 1 + t.field->ghosts[d];
      halo[d] = t.halo[d];
    }
  }
};

struct Target {
  Index slot, strides[3];
  explicit Target(const BatchChannel& s) : slot(s.slot), strides{s.strides[0], s.strides[1], s.strides[2]} {}
};

template <class T, class To>
struct Pack {
  View<const T> from;
  Target to;
  To* dst;
  ChannelScale scale;
  Index tile[3];

  KOKKOS_FUNCTION bool inside(Index i, int d) const { return i >= from.halo[d] && i < from.halo[d] + tile[d]; }

  KOKKOS_FUNCTION void operator()(Index slot, Index z, Index y, Index x, Index end) const {
    const Index* origin = from.origins + 3 * slot;
    const Index at[2] = {clamped(origin[0] + z - from.halo[0], from.low[0], from.high[0]),
                         clamped(origin[1] + y - from.halo[1], from.low[1], from.high[1])};
    const T* row = from.interior + at[0] * from.strides[0] + at[1] * from.strides[1];
    To* out = dst + slot * to.slot + z * to.strides[0] + y * to.strides[1];
    const Index first = origin[2] - from.halo[2];
    for (; x < end; ++x) {
      const T value = row[clamped(first + x, from.low[2], from.high[2]) * from.strides[2]];
      if constexpr (std::is_integral_v<To>) {
        const bool counts = inside(z, 0) && inside(y, 1) && inside(x, 2);
        out[x * to.strides[2]] = counts ? static_cast<To>(Kokkos::floor(value + T(0.5))) : To(-1);
      } else {
        const float v = static_cast<float>(scale.logarithm ? Kokkos::log1p(value) : value);
        out[x * to.strides[2]] = v * scale.scale + scale.offset;
      }
    }
  }
};

/// The value of a channel, or the index of the largest channel.
struct Chosen {
  const float* src;
  Target from;
  Index classes, channel_stride;

  KOKKOS_FUNCTION float operator()(Index i) const {
    if (classes == 0) return src[i];
    Index best = 0;
    for (Index c = 1; c < classes; ++c)
      if (src[i + c * channel_stride] > src[i + best * channel_stride]) best = c;
    return static_cast<float>(best);
  }
};

/// Writes tiles to a field. If the extents are no multiple of the tile, the last tile begins earlier and overlaps the
/// previous one. It does not write the overlapping cells: else the result would depend on the order of threads.
template <class T>
struct Unpack {
  Chosen from;
  View<T> to;
  Index last[3];     ///< origin of the last tile
  Index overlap[3];  ///< the number of its cells that belong to the previous tile

  Unpack(const Chosen& chosen, const TiledField& t) : from(chosen), to(t) {
    for (std::size_t d = 0; d < 3; ++d) {
      const Index extent = t.field->extents[d], tile = t.tile[d], rest = extent % tile;
      last[d] = extent - tile;
      overlap[d] = rest != 0 ? tile - rest : 0;
    }
  }

  /// The number of cells at the beginning of a tile that belong to the previous tile.
  KOKKOS_FUNCTION Index shared(Index origin, int d) const { return origin == last[d] ? overlap[d] : 0; }

  KOKKOS_FUNCTION void operator()(Index slot, Index z, Index y, Index x, Index end) const {
    const Index* origin = to.origins + 3 * slot;
    if (z < shared(origin[0], 0) || y < shared(origin[1], 1)) return;
    if (x < shared(origin[2], 2)) x = shared(origin[2], 2);
    T* row = to.interior + (origin[0] + z) * to.strides[0] + (origin[1] + y) * to.strides[1];
    const Index* s = from.from.strides;
    const Index at = slot * from.from.slot + (z + to.halo[0]) * s[0] + (y + to.halo[1]) * s[1];
    for (; x < end; ++x) row[(origin[2] + x) * to.strides[2]] = static_cast<T>(from(at + (x + to.halo[2]) * s[2]));
  }
};

/// The sum over a run of a slot's inner cells: a term of parallel_sums().
struct RunSum {
  Chosen from;
  Box box;
  Index halo[3];

  KOKKOS_FUNCTION double operator()(Index slot, Index run) const {
    double sum = 0;
    box.with_run(run, [&](Index, Index z, Index y, Index x, Index end) {
      const Index* s = from.from.strides;
      const Index at = slot * from.from.slot + (z + halo[0]) * s[0] + (y + halo[1]) * s[1];
      for (; x < end; ++x) sum += static_cast<double>(from(at + (x + halo[2]) * s[2]));
    });
    return sum;
  }
};

/// Sums become means.
struct Mean {
  const double* sums;
  double cells;
  float* means;
  KOKKOS_FUNCTION void operator()(Index slot) const { means[slot] = static_cast<float>(sums[slot] / cells); }
};

template <class T>
struct CopyInterior {
  const T* interior;
  Index strides[3], extents[3];
  T* dense;

  KOKKOS_FUNCTION void operator()(Index, Index z, Index y, Index x, Index end) const {
    const T* row = interior + z * strides[0] + y * strides[1];
    T* out = dense + (z * extents[1] + y) * extents[2];
    for (; x < end; ++x) out[x] = row[x * strides[2]];
  }
};

template <class To>
void pack_as(const TiledField& from, const BatchChannel& to, const ChannelScale& scale) {
  Triple extents;
  for (std::size_t d = 0; d < 3; ++d) extents[d] = from.tile[d] + 2 * from.halo[d];
  const Triple& t = from.tile;
  auto* dst = static_cast<To*>(to.data);
  if (from.field->is_double)
    for_each_run("keelson insitu pack", from.tiles, extents,
                 Pack<double, To>{View<const double>(from), Target(to), dst, scale, {t[0], t[1], t[2]}});
  else
    for_each_run("keelson insitu pack", from.tiles, extents,
                 Pack<float, To>{View<const float>(from), Target(to), dst, scale, {t[0], t[1], t[2]}});
}

template <class T>
void copy_as(const HostField& f, const std::byte* data, void* dense) {
  const CopyInterior<T> body{reinterpret_cast<const T*>(data) + f.origin(),
                             {f.strides[0], f.strides[1], f.strides[2]},
                             {f.extents[0], f.extents[1], f.extents[2]},
                             static_cast<T*>(dense)};
  for_each_run("keelson insitu copy", 1, f.extents, body);
}

}  // namespace

void wait_for_host() { Kokkos::fence(kokkos::heard("keelson insitu: the host's work")); }

void pack(const TiledField& from, const BatchChannel& to, const ChannelScale& scale) {
  pack_as<float>(from, to, scale);
}

void pack_classes(const TiledField& from, const BatchChannel& to) { pack_as<std::int32_t>(from, to, {}); }

void unpack(const BatchChannel& from, const TiledField& to, std::int64_t classes, std::int64_t channel_stride) {
  const Chosen chosen{static_cast<const float*>(from.data), Target(from), classes, channel_stride};
  if (to.field->is_double)
    for_each_run("keelson insitu unpack", to.tiles, to.tile, Unpack<double>(chosen, to));
  else
    for_each_run("keelson insitu unpack", to.tiles, to.tile, Unpack<float>(chosen, to));
}

std::size_t score_scratch_bytes(const Triple& tile, std::int64_t tiles) {
  const auto numbers = tiles * (1 + kokkos::parallel_sum_scratch(Box(tile, 1).runs()));
  return static_cast<std::size_t>(numbers) * sizeof(double);
}

void score(const BatchChannel& from, const TiledField& tiles, std::int64_t classes, std::int64_t channel_stride,
           float* scores, void* scratch) {
  const Triple& h = tiles.halo;
  const Box box(tiles.tile, 1);
  const Chosen chosen{static_cast<const float*>(from.data), Target(from), classes, channel_stride};
  auto* sums = static_cast<double*>(scratch);
  kokkos::parallel_sums("keelson insitu score", RunSum{chosen, box, {h[0], h[1], h[2]}}, tiles.tiles, box.runs(),
                        sums + tiles.tiles, sums);
  const auto cells = static_cast<double>(tiles.tile[0] * tiles.tile[1] * tiles.tile[2]);
  kokkos::launch("keelson insitu means", tiles.tiles, Mean{sums, cells, scores + tiles.first});
}

void copy_interior(const HostField& field, const std::byte* data, void* dense) {
  if (field.is_double)
    copy_as<double>(field, data, dense);
  else
    copy_as<float>(field, data, dense);
}

}  // namespace keelson::insitu
