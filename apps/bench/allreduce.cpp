#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/bench/timing.hpp"
#include "apps/bench/verbs.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/verb.hpp"
#include "comm/communicators.hpp"

namespace keelson::bench {
namespace {

struct AllreduceOptions {
  std::uint64_t least = 4 << 10, most = 64 << 20;
  int factor = 4, repeats = 20, warmup = 3;
  bool json = false, compare = false;
  app::DeviceOptions device;
};

struct SizeResult {
  std::uint64_t bytes = 0;
  Timing seconds;
  int ranks = 1;
  std::string algorithm;                        ///< empty: not ours to choose
  std::vector<comm::AllreduceTime> algorithms;  ///< with --compare

  /// Bytes of the array per second.
  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds.median; }
  /// What a link must carry at least: each rank sends and receives 2 (n - 1) / n of the array (as NCCL's tests count).
  double bus_bandwidth() const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

/// The sum of ranks 1 ... n in every element, or the communicator is of no use.
void check_sum(const std::vector<float>& data, const Communicator& world) {
  const double n = world.size(), expected = n * (n + 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (std::abs(data[i] - expected) > 1e-5 * expected)
      fail("allreduce of {} floats on rank {}: element {} is {}, expected {}", data.size(), world.rank(), i, data[i],
           expected);
}

SizeResult measure(std::uint64_t bytes, const AllreduceOptions& o, Context& context, Communicator& world) {
  using clock = std::chrono::steady_clock;
  Device& device = context.device();
  std::vector<float> host(bytes / sizeof(float), static_cast<float>(world.rank() + 1));
  const Tensor data = context.allocate(TensorDesc::plain({static_cast<std::int64_t>(host.size())}), "summed array");
  const auto sum =
      world.make_allreduce(data.data<float>(), host.size(), fmt::format("{} bytes of keelson-bench", bytes));
  device.copy_from_host(data.raw(), host.data(), data.bytes());
  sum->start();
  sum->wait();
  device.copy_to_host(host.data(), data.raw(), data.bytes());
  check_sum(host, world);
  device.zero(data.raw(), data.bytes());  // sums of sums would soon be infinite
  device.fence();
  std::vector<double> seconds;
  for (int i = -o.warmup; i < o.repeats; ++i) {
    world.barrier();
    const auto start = clock::now();
    sum->start();
    sum->wait();
    device.fence();
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
  }
  world.allreduce(seconds.data(), seconds.size(), Reduction::max);
  SizeResult result{bytes, summarize(std::move(seconds)), world.size(), "", {}};
  if (!device.shares_host_memory()) return result;
  result.algorithm = comm::allreduce_algorithm(world, bytes);
  if (o.compare) result.algorithms = comm::time_allreduces(world, bytes);
  return result;
}

void print_head(const AllreduceOptions& o, const app::Job& job, const app::DeviceSession& place) {
  fmt::print("sum of f32 over {}; {}; median of {}, slowest rank\n", job.machine, place.describe(), o.repeats);
  if (job.world.size() == 1) fmt::print("one rank has nobody to talk to: start this under mpirun or srun\n");
  fmt::print("{:>12} {:>12} {:>12} {:>24} {:>12} {:>12}  {}\n", "bytes", "floats", "us", "(fastest, slowest)",
             "algbw GB/s", "busbw GB/s", "algorithm");
}

void print_row(const SizeResult& r) {
  const auto& s = r.seconds;
  fmt::print("{:>12} {:>12} {:>12.1f} {:>24} {:>12.3f} {:>12.3f}  {}\n", r.bytes, r.bytes / sizeof(float),
             s.median * 1e6, fmt::format("({:.1f}, {:.1f})", s.fastest * 1e6, s.slowest * 1e6),
             r.algorithm_bandwidth() * 1e-9, r.bus_bandwidth() * 1e-9, r.algorithm);
  for (const auto& [algorithm, seconds, blocking] : r.algorithms)
    fmt::print("{:>25} {:>12.1f}   {}{}\n", "", seconds * 1e6, algorithm, blocking ? " (blocking)" : "");
  std::fflush(stdout);
}

nlohmann::json json_of(const SizeResult& r) {
  auto algorithms = nlohmann::json::object();
  for (const auto& [algorithm, seconds, blocking] : r.algorithms) algorithms[algorithm] = seconds;
  return {{"bytes", r.bytes},
          {"algorithm", r.algorithm},
          {"algorithms_seconds", std::move(algorithms)},
          {"seconds", r.seconds.median},
          {"seconds_fastest", r.seconds.fastest},
          {"seconds_slowest", r.seconds.slowest},
          {"algorithm_gigabytes_per_second", r.algorithm_bandwidth() * 1e-9},
          {"bus_gigabytes_per_second", r.bus_bandwidth() * 1e-9}};
}

ExitCode run_allreduce(const AllreduceOptions& o, app::Job& job) {
  if (o.least > o.most)
    refuse("--min-bytes {} is more than --max-bytes {}: no size lies between them", o.least, o.most);
  const auto place = app::open_device(o.device, job);
  auto& world = *place.ranks;
  const bool speaks = world.rank() == 0;
  if (speaks && !o.json) print_head(o, job, place);
  nlohmann::json all{{"ranks", world.size()},
                     {"machine", job.machine},
                     {"device", place.describe()},
                     {"sizes", nlohmann::json::array()}};
  for (std::uint64_t bytes = o.least; bytes <= o.most; bytes *= static_cast<std::uint64_t>(o.factor)) {
    const auto result = measure(bytes / sizeof(float) * sizeof(float), o, *place.context, world);
    if (speaks && o.json) all["sizes"].push_back(json_of(result));
    if (speaks && !o.json) print_row(result);
  }
  if (speaks && o.json) fmt::print("{}\n", all.dump());
  std::fflush(stdout);
  return ExitCode::done;
}

}  // namespace

void define_allreduce(app::CommandLine& line) {
  auto o = std::make_shared<AllreduceOptions>();
  auto& v = line.verb("allreduce", "Time the sum over ranks that exchanges gradients, under mpirun or srun",
                      [o](app::Job& job) { return run_allreduce(*o, job); });
  constexpr double least = 4, most = 64.0 * (1 << 30);
  v.option("--min-bytes", o->least, "Smallest array; K, M and G are powers of 1024", "SIZE")
      .byte_size()
      .between(least, most);
  v.option("--max-bytes", o->most, "Largest array", "SIZE").byte_size().between(least, most);
  v.option("--factor", o->factor, "From one size to the next", "N").between(2, 1 << 20);
  v.option("--repeats", o->repeats, "Timed sums of each size, of which the median counts", "N").positive();
  v.option("--warmup", o->warmup, "Sums before those", "N").non_negative();
  v.flag("--compare", o->compare, "Time all algorithms, and MPI_Allreduce, beside the one that is chosen");
  app::declare(o->device, v);
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
