#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "apps/bench/compare/measure.hpp"
#include "apps/common/exchange_options.hpp"

/// The parts of measure_machine().
namespace keelson::bench::comparison {

/// Data that all of them need.
struct Measurement {
  const MeasureOptions& options;
  app::Launch& launch;
  app::DeviceSession session;
  ExchangeOptions exchange;
  EnergyMeter meter;
  Measured<EnergySource> energy;
  Measured<Peaks> peaks;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  Measurement(const MeasureOptions& o, app::Launch& j);

  Communicator& ranks() const { return *session.ranks; }
  Context& context() const { return *session.context; }
  Device& device() const { return session.context->device(); }
  bool gpu() const { return !session.context->device().shares_host_memory(); }
  double seconds_for_steps() const {
    return options.quick ? 0.4 : 2.5;
  }  ///< total time for the timed steps of one network
  /// The precisions that the user asked for; else those for which the device has multiply instructions.
  std::vector<std::string> precisions() const;
  /// Prints a line for the user, on rank 0.
  template <class... A>
  void tell(fmt::format_string<A...> text, A&&... args) const {
    if (launch.world.rank() != 0) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(stderr, "[{:4.0f} s] {}\n", seconds, fmt::format(text, std::forward<A>(args)...));
  }
};

/// The result of `measure`. If it throws InputError or OutOfMemory on any rank: a missing figure with the message.
template <class Measure>
auto attempt(Communicator& world, const Measure& measure) {
  Measured<decltype(measure())> result;
  try {
    result.value = measure();
  } catch (const InputError& error) {
    result.reason = error.what();
  } catch (const OutOfMemory& error) {
    result.reason = error.what();
  }
  for (const auto& why : world.allgather(result.reason))
    if (!why.empty()) return decltype(result)::missing(why);
  return result;
}

std::vector<std::pair<std::string, std::string>> machine_facts(Device& device);

Peaks measure_peaks(Measurement& s);
std::vector<Step> measure_steps(Measurement& s);
Scaling measure_scaling(Measurement& s);
std::vector<SumTime> measure_sums(Measurement& s);
InputRate measure_reading(Measurement& s);

/// The commit from which this program was built: "4b110c6", with "-dirty" if files had changed; empty: unknown.
const char* source_commit();

/// Names of the instructions of this machine's processor that matter here: "avx2", "avx512_bf16", ...
std::vector<std::string> processor_features();

}  // namespace keelson::bench::comparison
