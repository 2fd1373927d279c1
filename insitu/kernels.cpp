#include "insitu/kernels.hpp"

#include <type_traits>

#include "backends/kokkos/common/kernel.hpp"

namespace keelson::insitu {
namespace {

using kokkos::ceil_div;
using kokkos::Index;

/// The cells of a box, divided into runs along the last dimension: a run is a row on a CPU, a cell on a GPU.
struct Box {
  Index extents[3];
  Index run;  ///< cells of a run
  Index runs() const { return extents[0] * extents[1] * ceil_div(extents[2], run); }
};

Box box_of(const Triple& e) { return {{e[0], e[1], e[2]}, kokkos::runs_on_host ? e[2] : 1}; }

/// Calls body(slot, z, y, first x, end x) for all runs of all slots.
template <class Body>
struct Runs {
  Box box;
  Body body;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index per_row = (box.extents[2] + box.run - 1) / box.run;
    const Index x = i % per_row * box.run;
    i /= per_row;
    const Index y = i % box.extents[1];
    i /= box.extents[1];
    const Index z = i % box.extents[0], slot = i / box.extents[0];
    body(slot, z, y, x, x + box.run < box.extents[2] ? x + box.run : box.extents[2]);
  }
};

template <class Body>
void for_each_run(const char* label, Index slots, const Box& box, const Body& body) {
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
  Index extents[3], tile[3];

  Unpack(const Chosen& chosen, const TiledField& t) : from(chosen), to(t) {
    for (std::size_t d = 0; d < 3; ++d) extents[d] = t.field->extents[d], tile[d] = t.tile[d];
  }

  /// The number of cells at the beginning of a tile that belong to the previous tile.
  KOKKOS_FUNCTION Index shared(Index origin, int d) const {
    const Index rest = extents[d] % tile[d];
    return rest != 0 && origin + tile[d] == extents[d] ? tile[d] - rest : 0;
  }

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

/// Sums rows first, so that the order does not depend on threads.
struct Score {
  Chosen from;
  Index extents[3], halo[3];
  float* scores;

  KOKKOS_FUNCTION void operator()(Index slot) const {
    double sum = 0;
    for (Index z = 0; z < extents[0]; ++z)
      for (Index y = 0; y < extents[1]; ++y) {
        const Index* s = from.from.strides;
        const Index at = slot * from.from.slot + (z + halo[0]) * s[0] + (y + halo[1]) * s[1];
        double row = 0;
        for (Index x = 0; x < extents[2]; ++x) row += from(at + (x + halo[2]) * s[2]);
        sum += row;
      }
    scores[slot] = static_cast<float>(sum / static_cast<double>(extents[0] * extents[1] * extents[2]));
  }
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
  const auto box = box_of(extents);
  const Triple& t = from.tile;
  auto* dst = static_cast<To*>(to.data);
  if (from.field->is_double)
    for_each_run("keelson insitu pack", from.tiles, box,
                 Pack<double, To>{View<const double>(from), Target(to), dst, scale, {t[0], t[1], t[2]}});
  else
    for_each_run("keelson insitu pack", from.tiles, box,
                 Pack<float, To>{View<const float>(from), Target(to), dst, scale, {t[0], t[1], t[2]}});
}

template <class T>
void copy_as(const HostField& f, const std::byte* data, void* dense) {
  const CopyInterior<T> body{reinterpret_cast<const T*>(data) + f.origin(),
                             {f.strides[0], f.strides[1], f.strides[2]},
                             {f.extents[0], f.extents[1], f.extents[2]},
                             static_cast<T*>(dense)};
  for_each_run("keelson insitu copy", 1, box_of(f.extents), body);
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
    for_each_run("keelson insitu unpack", to.tiles, box_of(to.tile), Unpack<double>(chosen, to));
  else
    for_each_run("keelson insitu unpack", to.tiles, box_of(to.tile), Unpack<float>(chosen, to));
}

void score(const BatchChannel& from, const TiledField& tiles, std::int64_t classes, std::int64_t channel_stride,
           float* scores) {
  const Triple& e = tiles.tile;
  const Triple& h = tiles.halo;
  const Score body{{static_cast<const float*>(from.data), Target(from), classes, channel_stride},
                   {e[0], e[1], e[2]},
                   {h[0], h[1], h[2]},
                   scores + tiles.first};
  kokkos::launch("keelson insitu score", tiles.tiles, body);
}

void copy_interior(const HostField& field, const std::byte* data, void* dense) {
  if (field.is_double)
    copy_as<double>(field, data, dense);
  else
    copy_as<float>(field, data, dense);
}

}  // namespace keelson::insitu
