#include "comm/watch/call_limit.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <utility>

#include "comm/watch/job_end.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/process.hpp"

namespace keelson::comm::detail {
namespace {

/// The rank of this process from the environment, since MPI is in a call of another thread. -1: unknown.
int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID"})
    if (const auto rank = parse_number<int>(environment(name))) return *rank;
  return -1;
}

}  // namespace

CallLimit::CallLimit(std::string what, double seconds, std::string advice)
    : what_(std::move(what)), advice_(std::move(advice)), seconds_(seconds) {
  if (seconds > 0) thread_ = std::thread([this] { watch(); });
}

CallLimit::~CallLimit() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void CallLimit::watch() {
  using Seconds = std::chrono::duration<double>;
  constexpr double interval = 1, longest_interval = 5;  // seconds; a longer interval: the job was suspended
  std::unique_lock lock(mutex_);
  for (double waited = 0; waited < seconds_;) {
    const auto before = std::chrono::steady_clock::now();
    if (ended_.wait_for(lock, Seconds(std::min(interval, seconds_ - waited)), [this] { return over_; })) return;
    waited += std::min(longest_interval, Seconds(std::chrono::steady_clock::now() - before).count());
  }
  const int rank = launched_rank();
  if (rank <= 0 || std::has_single_bit(static_cast<unsigned>(rank)))  // only a few ranks report
    fmt::print(stderr,
               "error: {}{}: {} has not ended within {:g} s. Another rank has probably died or was stopped meanwhile, "
               "or the nodes do not reach each other. {}\n",
               rank < 0 ? "a rank on " : fmt::format("rank {} on ", rank), host_name(), what_, seconds_, advice_);
  else if (ended_.wait_for(lock, Seconds(2), [this] { return over_; }))  // gives the reporting ranks time to write
    return;
  end_without_mpi(static_cast<int>(ExitCode::failure));
}

StartLimit::StartLimit()
    : CallLimit("the start of MPI", seconds_from_environment("KEELSON_START_LIMIT", 300),
                "Start the job again. A job that needs longer to start: KEELSON_START_LIMIT=SECONDS; 0: no limit") {}

}  // namespace keelson::comm::detail
