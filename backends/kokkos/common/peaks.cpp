#include "backends/kokkos/common/peaks.hpp"

#include <chrono>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/common/values.hpp"

namespace keelson::kokkos {

namespace {

/// The time of launch() until its work is done, in seconds.
template <class Launch>
double seconds_of(const Launch& launch) {
  using clock = std::chrono::steady_clock;
  fence("keelson::peaks::begin");
  const auto start = clock::now();
  launch();
  fence("keelson::peaks::end");
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// The shortest of repeated runs: at least three runs, and runs for `budget` seconds.
template <class Launch>
double best_of(double budget, const Launch& launch) {
  double best = seconds_of(launch), spent = best;
  for (int run = 1; run < 3 || spent < budget; ++run) {
    const double seconds = seconds_of(launch);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// x = scale x + shift in each accumulator. There are as many independent accumulators as in the kernels' tile, which
/// hides the latency of the units. The constants are known only at run time, so that the compiler cannot simplify the
/// loop.
struct Chains {
  Index rounds;
  float scale, shift;
  float* results;  ///< one per item: without it the compiler would remove the loop

  static constexpr double flops_of_round = 2.0 * tile_rows * max_lanes;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Lanes<max_lanes> chain[tile_rows], shifts;
    float x[max_lanes];
    for (int l = 0; l < max_lanes; ++l) x[l] = shift;
    shifts.load(x);
    for (int r = 0; r < tile_rows; ++r) {
      for (int l = 0; l < max_lanes; ++l) x[l] = shift * static_cast<float>(r + l);
      chain[r].load(x);
    }
    for (Index i = 0; i < rounds; ++i) {
      KEELSON_UNROLL
      for (int r = 0; r < tile_rows; ++r) chain[r].scale_and_add(scale, shifts);
    }
    float sum = 0;
    for (int r = 0; r < tile_rows; ++r) {
      chain[r].store(x);
      for (int l = 0; l < max_lanes; ++l) sum += x[l];
    }
    results[item] = sum;
  }
};

}  // namespace

double measure_fma_rate() {
  constexpr const char* label = "keelson::peaks::fma";
  const Index items = space().concurrency();
  const Kokkos::View<float*, Space> results(Kokkos::view_alloc(space(), "keelson::peaks::results"),
                                            static_cast<std::size_t>(items));
  Chains chains{1 << 12, 0.999f, 1e-3f, results.data()};
  const auto run = [&] { launch(label, items, chains); };
  // Long enough to ignore the start of the threads, and short enough that some runs are not disturbed.
  while (seconds_of(run) < 0.01) chains.rounds *= 2;
  return static_cast<double>(items * chains.rounds) * Chains::flops_of_round / best_of(0.25, run);
}

double measure_copy_rate(float* dst, const float* src, Index count) {
  constexpr const char* label = "keelson::peaks::copy";
  const double seconds = best_of(0.3, [&] {
    for_each_block(
        label, count,
        KOKKOS_LAMBDA(Index begin, Index end) { map_run(begin, end, [](float x) { return x; }, dst, src); }, 65536,
        pack_width<float>);
  });
  return 2.0 * static_cast<double>(count) * sizeof(float) / seconds;
}

}  // namespace keelson::kokkos
