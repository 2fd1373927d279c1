#include "apps/bench/allreduce_times.hpp"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace keelson::bench {
namespace {

/// Every element must be the sum 1 + ... + n; else the communicator is wrong.
void check_sum(const std::vector<float>& data, const Communicator& world) {
  const double n = world.size(), expected = n * (n + 1) / 2;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (std::abs(data[i] - expected) > 1e-5 * expected)
      fail("allreduce of {} floats on rank {}: element {} is {}, expected {}", data.size(), world.rank(), i, data[i],
           expected);
}

}  // namespace

AllreduceResult measure_allreduce(std::uint64_t bytes, const AllreduceRepeats& repeats, Context& context,
                                  Communicator& world) {
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
  device.zero(data.raw(), data.bytes());  // values that are summed again and again would soon be infinite
  device.fence();
  std::vector<double> seconds;
  for (int i = -repeats.warmup; i < repeats.timed; ++i) {
    world.barrier();
    const auto start = clock::now();
    sum->start();
    sum->wait();
    device.fence();
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
  }
  world.allreduce(seconds.data(), seconds.size(), Reduction::max);
  AllreduceResult result{bytes, summarize(std::move(seconds)), world.size(), "", {}};
  if (!device.shares_host_memory()) return result;
  result.algorithm = comm::allreduce_algorithm(world, bytes);
  if (repeats.compare) result.algorithms = comm::time_allreduces(world, bytes);
  return result;
}

nlohmann::json allreduce_json(const AllreduceResult& r) {
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

}  // namespace keelson::bench
