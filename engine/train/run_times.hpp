#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// The parts of a run's wall time, in the order of tables.
enum class TimePart : std::uint8_t {
  compute,        ///< forward, backward and update
  communication,  ///< exposed: waited for although all ranks had come
  imbalance,      ///< waited for ranks that came later
  reading,        ///< waited for samples that were still to be read
  decoding,       ///< waited for samples that had been read, and were still to be decoded
  received,       ///< waited for samples of other ranks
  copy,           ///< samples handed to the device
  validation,     ///< all of it
  checkpoints,    ///< those that were written, or waited for while rank 0 wrote them
  changes,        ///< the choice of other networks, and their plans
  other,          ///< start of epochs, observers, and the rest
};
inline constexpr std::size_t time_parts = 11;  ///< number of them
std::string_view to_string(TimePart part);     ///< "exposed communication"

/// Where the wall time of a run went, over all ranks.
struct RunTimes {
  /// Seconds of all ranks.
  struct Spread {
    double mean = 0;                    ///< over ranks
    double least = 0;                   ///< of any rank
    double most = 0;                    ///< of any rank
    int least_rank = 0, most_rank = 0;  ///< Communicator::number() of the first that has it
    std::string most_host;              ///< of most_rank
  };
  int ranks = 1;           ///< of the run
  std::int64_t steps = 0;  ///< done in that time
  /// The host only queues the work of a device: compute then includes the exchange and the device's waiting for other
  /// ranks, of which communication and imbalance show little.
  bool host_runs_ahead = false;
  double seconds = 0;                    ///< of the run: mean of all ranks, and sum of the parts' means
  std::array<Spread, time_parts> parts;  ///< by TimePart
  /// The seconds of one part.
  const Spread& operator[](TimePart part) const { return parts[static_cast<std::size_t>(part)]; }
  double share(TimePart part) const { return seconds > 0 ? (*this)[part].mean / seconds : 0; }  ///< of `seconds`
};

/// Of this rank: seconds of the parts but `other`, which becomes the rest of `wall`. What is there of all ranks is in
/// the result of rank 0. Collective.
RunTimes gather_run_times(std::array<double, time_parts> mine, double wall, Communicator& ranks);

/// Splits the waits of synchronous steps: the least wait of all ranks in a step is communication, since the rank that
/// came last waited for nobody; what another rank waited beyond that, it waited for slower ranks.
class WaitSplit {
 public:
  /// Adds the wait of one step, in seconds. The ranks add the same number of waits.
  void add(double seconds) { waits_.push_back(static_cast<float>(seconds)); }
  /// Seconds of communication in all steps so far. Collective.
  double communication(Communicator& ranks) const;

 private:
  std::vector<float> waits_;  ///< of every step
};

}  // namespace keelson
