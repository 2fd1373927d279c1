#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/bench/allreduce_times.hpp"
#include "apps/bench/subcommands.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/subcommand.hpp"

namespace keelson::bench {
namespace {

struct AllreduceOptions {
  std::uint64_t least = 4 << 10, most = 64 << 20;
  int factor = 4;
  AllreduceRepeats repeats;
  bool json = false;
  app::DeviceOptions device;
};

void print_head(const AllreduceOptions& o, const app::Launch& launch, const app::DeviceSession& session) {
  fmt::print("sum of f32 over {}; {}; median of {}, slowest rank\n", launch.machine, session.describe(),
             o.repeats.timed);
  if (launch.world.size() == 1)
    fmt::print("one rank has no other rank to exchange with: start this under mpirun or srun\n");
  fmt::print("{:>12} {:>12} {:>12} {:>24} {:>12} {:>12}  {}\n", "bytes", "floats", "us", "(fastest, slowest)",
             "algbw GB/s", "busbw GB/s", "algorithm");
}

void print_row(const AllreduceResult& r) {
  const auto& s = r.seconds;
  fmt::print("{:>12} {:>12} {:>12.1f} {:>24} {:>12.3f} {:>12.3f}  {}\n", r.bytes, r.bytes / sizeof(float),
             s.median * 1e6, fmt::format("({:.1f}, {:.1f})", s.fastest * 1e6, s.slowest * 1e6),
             r.algorithm_bandwidth() * 1e-9, r.bus_bandwidth() * 1e-9, r.algorithm);
  for (const auto& [algorithm, seconds, blocking] : r.algorithms)
    fmt::print("{:>25} {:>12.1f}   {}{}\n", "", seconds * 1e6, algorithm, blocking ? " (blocking)" : "");
  std::fflush(stdout);
}

ExitCode run_allreduce(const AllreduceOptions& o, app::Launch& launch) {
  if (o.least > o.most)
    refuse("--min-bytes {} is more than --max-bytes {}: no size lies between them", o.least, o.most);
  const auto session = app::open_device(o.device, launch);
  auto& world = *session.ranks;
  const bool speaks = world.rank() == 0;
  if (speaks && !o.json) print_head(o, launch, session);
  nlohmann::json all{{"ranks", world.size()},
                     {"machine", launch.machine},
                     {"device", session.describe()},
                     {"sizes", nlohmann::json::array()}};
  for (std::uint64_t bytes = o.least; bytes <= o.most; bytes *= static_cast<std::uint64_t>(o.factor)) {
    const auto result = measure_allreduce(bytes / sizeof(float) * sizeof(float), o.repeats, *session.context, world);
    if (speaks && o.json) all["sizes"].push_back(allreduce_json(result));
    if (speaks && !o.json) print_row(result);
  }
  if (speaks && o.json) fmt::print("{}\n", all.dump());
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_allreduce(app::CommandLine& line) {
  auto o = std::make_shared<AllreduceOptions>();
  auto& v = line.subcommand(
      "allreduce", "Time the sum over ranks with which training exchanges gradients; start it under mpirun or srun",
      [o](app::Launch& launch) { return run_allreduce(*o, launch); });
  constexpr double least = 4, most = 64.0 * (1 << 30);
  v.option("--min-bytes", o->least, "Smallest array; K, M and G are powers of 1024", "SIZE")
      .byte_size()
      .between(least, most);
  v.option("--max-bytes", o->most, "Largest array", "SIZE").byte_size().between(least, most);
  v.option("--factor", o->factor, "Factor from each size to the next", "N").between(2, 1 << 20);
  v.option("--repeats", o->repeats.timed, "Timed sums of each size; the median is printed", "N").positive();
  v.option("--warmup", o->repeats.warmup, "Sums before the timed ones", "N").non_negative();
  v.flag("--compare", o->repeats.compare, "Also time all other algorithms and MPI_Allreduce");
  app::declare(o->device, v);
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
