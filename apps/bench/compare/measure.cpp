#include "apps/bench/compare/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "apps/bench/allreduce_times.hpp"
#include "apps/bench/compare/measurement.hpp"
#include "apps/bench/input_rate.hpp"
#include "apps/bench/peaks.hpp"
#include "engine/base/philox.hpp"
#include "engine/base/process.hpp"
#include "engine/base/ranks.hpp"
#include "engine/base/utc_time.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "engine/execute/choose_precision.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"

namespace keelson::bench::comparison {
namespace {

/// FLOP/s of this rank in a product of two n x n matrices: the fastest of several.
double product_rate(Measurement& s, std::int64_t n, const std::string& precision) {
  Graph graph;
  graph.set_output("y", dense(graph.input("x", {n}), {.features = n, .bias = false}, "product"));
  PlanOptions options{.batch = n, .training = false};
  options.precision = choose_precision(precision, graph, s.context(), options);
  Parameters parameters(graph, s.context(), 1);
  Executor executor(graph, parameters, options);
  std::vector<float> values(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox::uniform({1, 0, 0}, i) - 0.5f;
  s.context().write_plain(executor.input("x"), values.data());
  executor.forward({});
  s.device().fence();
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    s.launch.world.barrier();
    executor.set_profiling(true);
    executor.forward({});
    s.device().fence();
    for (const auto& r : executor.rows())
      if (r.node == "product") best = std::max(best, r.gflop_per_second() * 1e9);
  }
  if (!(best > 0)) refuse("no product of matrices was timed");
  return best;
}

/// Universes of made-up counts, in a folder that the destructor removes: input for training without a simulation.
class MadeUpUniverses {
 public:
  MadeUpUniverses(Communicator& world, const std::string& scratch, std::int64_t edge, int files)
      : world_(world), folder_(fmt::format("{}/keelson-universes-{}-{}", scratch, host_name(), ::getpid())) {
    auto names = world.allgather(folder_);
    folder_ = names.front();
    try {
      on_first_rank(&world, [&] { write(edge, files); });
    } catch (const std::exception& error) {
      remove();
      refuse("no samples can be written below --scratch {}: {}", scratch, error.what());
    }
  }
  ~MadeUpUniverses() { remove(); }
  MadeUpUniverses(const MadeUpUniverses&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  void write(std::int64_t edge, int files) const {
    std::filesystem::create_directories(folder_);
    std::vector<std::int16_t> counts(static_cast<std::size_t>(edge * edge * edge * 4));
    for (int f = 0; f < files; ++f) {
      for (std::size_t i = 0; i < counts.size(); ++i)
        counts[i] = static_cast<std::int16_t>(8 * philox::uniform({1, static_cast<std::uint32_t>(f), 0}, i));
      const float targets[4] = {0, 0.5f, -0.5f, 0.25f};
      auto file = hdf5::File::create(fmt::format("{}/universe_{:03}.h5", folder_, f));
      file.write("x", counts.data(), {edge, edge, edge, 4});
      file.write("y", targets, {4});
      file.close();
    }
  }
  void remove() const {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(folder_, ignored);
  }

  Communicator& world_;
  std::string folder_;
};

double watch_idle(Measurement& s) {
  const double seconds = s.options.quick ? 0.5 : 2;
  const auto start = std::chrono::steady_clock::now();
  s.meter.start();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  s.launch.world.allreduce(&passed, 1, Reduction::max);
  return s.meter.joules() / passed;
}

}  // namespace

Measurement::Measurement(const MeasureOptions& o, app::Launch& j)
    : options(o),
      launch(j),
      session(app::open_device(o.device, j, o.backend)),
      exchange(app::decide({}, *session.ranks)),
      meter(j.world, session.context->device(), o.powercap) {}

std::vector<std::string> Measurement::precisions() const {
  if (!options.precisions.empty()) return options.precisions;
  if (gpu()) {
    const DType half = device().preferred_half();
    if (half == DType::bf16) return {"fp32", "tf32", "bf16", "fp16"};
    return half == DType::f16 ? std::vector<std::string>{"fp32", "fp16"} : std::vector<std::string>{"fp32"};
  }
  const auto features = processor_features();
  const auto has = [&](auto... names) {
    return (... || (std::find(features.begin(), features.end(), names) != features.end()));
  };
  std::vector<std::string> words{"fp32"};
  if (has("avx512_bf16", "amx_bf16", "bf16")) words.push_back("bf16");
  if (has("avx512_fp16", "amx_fp16")) words.push_back("fp16");
  return words;
}

Peaks measure_peaks(Measurement& s) {
  const auto measured = machine_peaks(s.context(), s.launch, s.options.remeasure);
  Peaks p{measured.flops_per_second,
          measured.copy_bytes_per_second,
          {},
          s.gpu()           ? 8192
          : s.options.quick ? 1024
                            : 2048};
  s.tell("peaks: {}", describe(measured));
  for (const auto& precision : s.precisions()) {
    p.products[precision] = attempt(s.launch.world, [&] {
      double rate = product_rate(s, p.product_size, precision);
      s.launch.world.allreduce(&rate, 1, Reduction::min);
      return rate;
    });
    const auto& product = p.products[precision];
    s.tell("matrix product, {}: {}", precision,
           product.value ? fmt::format("{:.1f} GFLOP/s", *product.value * 1e-9) : product.reason);
  }
  return p;
}

std::vector<SumTime> measure_sums(Measurement& s) {
  if (s.ranks().size() == 1)
    refuse(
        "one rank has no other rank to exchange with: start this under mpirun or srun, with as many ranks as the "
        "machine has "
        "devices");
  std::vector<SumTime> sums;
  const std::uint64_t most = s.options.quick ? 4u << 20 : 64u << 20;
  for (std::uint64_t bytes = 4 << 10; bytes <= most; bytes *= 4) {
    const auto r = measure_allreduce(bytes, {.timed = s.options.quick ? 5 : 20, .warmup = 3}, s.context(), s.ranks());
    sums.push_back({bytes, r.seconds.median, r.bus_bandwidth(), r.algorithm});
  }
  s.tell("sum over {} ranks, {} MiB: {:.3g} GB/s", s.ranks().size(), sums.back().bytes >> 20,
         sums.back().bus_bytes_per_second * 1e-9);
  return sums;
}

InputRate measure_reading(Measurement& s) {
  InputOptions o{.data = s.options.data};
  std::optional<MadeUpUniverses> made;
  if (o.data.empty()) {
    // Enough files for each rank and thread.
    const int files = (s.options.quick ? 4 : 16) * s.launch.world.size();
    made.emplace(s.launch.world, s.options.scratch, s.options.quick ? 32 : 64, files);
    o.data = made->folder();
  }
  const auto r = measure_input(o, s.launch);
  const auto& last = r.epochs.back();
  const double rate = last.samples / last.seconds;
  s.tell("input: {:.4g} samples/s", rate);
  return {made ? fmt::format("made-up universes of {0}^3 x 4 int16, from the page cache", s.options.quick ? 32 : 64)
               : r.data,
          rate, rate * r.sample_megabytes * 1e6, r.stages.decoding.threads};
}

MachineFile measure_machine(const MeasureOptions& options, app::Launch& launch) {
  Measurement s(options, launch);
  auto& world = launch.world;
  s.energy = attempt(world, [&] {
    if (!s.meter.reason().empty()) refuse("{}", s.meter.reason());
    return EnergySource{s.meter.source(), watch_idle(s)};
  });
  s.tell("energy: {}", s.energy.value
                           ? fmt::format("{}; idle {:.1f} W", s.energy.value->source, s.energy.value->idle_watts)
                           : s.energy.reason);
  s.peaks = attempt(world, [&] { return measure_peaks(s); });

  MachineFile m;
  m.name = options.name.empty() ? world.host() : options.name;
  m.measured = utc_now();
  m.keelson = KEELSON_VERSION;
  m.commit = source_commit();
  m.quick = options.quick;
  m.layout = launch.machine;
  m.device = s.session.describe();
  m.gpu = s.gpu();
  m.ranks = world.size();
  m.nodes = world.nodes();
  m.facts = machine_facts(s.device());
  if (options.price_per_hour > 0)
    m.price_per_hour.value = options.price_per_hour;
  else
    m.price_per_hour.reason = "no --price-per-hour was given";
  m.peaks = s.peaks;
  m.energy = s.energy;
  m.steps = measure_steps(s);
  m.scaling = attempt(world, [&] { return measure_scaling(s); });
  m.collectives = attempt(world, [&] { return measure_sums(s); });
  m.input = attempt(world, [&] { return measure_reading(s); });
  return m;
}

}  // namespace keelson::bench::comparison
