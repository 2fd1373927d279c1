// keelson-scale-replay: reads a ReplayJob as JSON on stdin, simulates it with SimGrid's SMPI, prints a ReplayResult as
// JSON. Arguments go to SimGrid (--cfg=...). keelson-bench scale starts it.
#include <mpi.h>
#include <smpi/smpi.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <simgrid/s4u.hpp>

#include "apps/replay/platform.hpp"
#include "apps/replay/processes.hpp"

namespace keelson::replay {
namespace {

void configure() {
  xbt_log_control_set("root.thresh:warning");
  for (const char* setting : {
           "smpi/simulate-computation:no",    // the program tells SimGrid how long processes compute
           "smpi/privatization:no",           // no process changes a global variable
           "smpi/send-is-detached-thresh:0",  // no copies of payloads, since there are none
           "smpi/async-small-thresh:0",       //
           "network/model:CM02",              // latencies and bandwidths as described, without factors for TCP
           "network/crosstraffic:no",         //
           "network/TCP-gamma:1e30",          // without TCP's window
           "network/maxmin-selective-update:yes",
           "contexts/factory:raw",    // the fastest kind of context
           "contexts/stack-size:64",  // KiB
           "contexts/guard-size:0",   //
       })
    simgrid::s4u::Engine::set_config(setting);
}

void run_rank(Replay& replay) {
  MPI_Init(nullptr, nullptr);
  int process = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  if (process < replay.job.ranks)
    run_exchange(replay, process);
  else
    run_computation(replay, process - replay.job.ranks);
  MPI_Finalize();
}

bench::ReplayResult simulate(const bench::ReplayJob& job, simgrid::s4u::Engine& engine) {
  const auto start = std::chrono::steady_clock::now();
  auto hosts = make_platform(job.machine, job.ranks);
  hosts.reserve(2 * hosts.size());
  std::copy_n(hosts.begin(), job.ranks, std::back_inserter(hosts));
  Replay replay(job);
  SMPI_init();
  smpi_comm_set_copy_data_callback([](smx_activity_t, void*, size_t) {});
  SMPI_app_instance_start("step", [&replay] { run_rank(replay); }, hosts);
  engine.run();
  SMPI_finalize();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const double rank_steps = static_cast<double>(job.ranks) * job.steps;
  return {.step = replay.end / job.steps,
          .slowest = std::accumulate(replay.slowest.begin(), replay.slowest.end(), 0.0) / job.steps,
          .wire_bytes = replay.wire_bytes / rank_steps,
          .messages = replay.messages / rank_steps,
          .wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          .megabytes = static_cast<double>(used.ru_maxrss) / 1024};
}

}  // namespace
}  // namespace keelson::replay

int main(int argc, char** argv) {
  using namespace keelson;
  try {
    simgrid::s4u::Engine engine(&argc, argv);
    replay::configure();
    const auto job = bench::replay_job_of(nlohmann::json::parse(std::cin));
    std::cout << bench::json_of(replay::simulate(job, engine)).dump() << std::endl;
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "keelson-scale-replay: " << e.what() << std::endl;
    return 1;
  }
}
