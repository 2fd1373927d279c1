#include "backends/kokkos/pool/conv_max_pool_weights.hpp"

#include <algorithm>

#include "backends/kokkos/common/caches.hpp"

namespace keelson::kokkos {

PooledRuns::PooledRuns(const PooledGeometry& g)
    : channels(std::min(g.src.c, panel)), panels(ceil_div(g.src.c, panel)), run(g.kernel[2] * channels) {
  const Index all = ceil_div(run, vector_width);
  padded = all * vector_width;
  for (Index v : {6, 4, 3, 2, 1})
    if (all % v == 0) {
      vectors = v;
      break;
    }
  per_run = all / vectors;
  segments = segments_at_once(static_cast<int>(vectors));
}

PooledTile::PooledTile(const PooledGeometry& g, const PooledRuns& runs) : windows{1, 1, 1} {
  // Neighbouring windows share elements of src, and all windows share the reading and writing of the sums; long rows
  // are best.
  const Index near = first_cache_bytes() * 7 / 8 / static_cast<Index>(sizeof(float));
  shape(g, runs);
  for (int d : {2, 2, 2, 1, 0, 1, 0, 2}) {
    const Triple before = windows;
    windows[d] = std::min(2 * windows[d], g.windows[d]);
    shape(g, runs);
    if (floats <= near && windows[0] * windows[1] * windows[2] <= most_windows) continue;
    windows = before;
    shape(g, runs);
  }
}

void PooledTile::shape(const PooledGeometry& g, const PooledRuns& runs) {
  Triple extent;
  for (int d = 0; d < 3; ++d) {
    count[d] = ceil_div(g.windows[d], windows[d]);
    extent[d] = windows[d] * g.window[d] + g.kernel[d] - 1;
  }
  if (runs.has_few_channels()) {
    step_window = runs.padded;
    step_h = windows[2] * step_window;
    step_d = extent[1] * step_h;
    step_w = extent[0] * step_d;
    floats = g.window[2] * step_w;
  } else {
    step_w = PooledRuns::panel;
    step_window = g.window[2] * step_w;
    step_h = extent[2] * step_w;
    step_d = extent[1] * step_h;
    floats = extent[0] * step_d;
  }
}

}  // namespace keelson::kokkos
