#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// Who lets the exchange between ranks advance while a rank computes.
enum class ProgressBy : std::uint8_t {
  calls,    ///< the thread that computes, between two ops (ProgressEngine::advance)
  thread,   ///< a thread beside (ProgressEngine::use_thread), if MPI allows one
  measured  ///< whatever makes faster steps; calls with KEELSON_TUNE=off, and if not all steps exchange alike
};

/// Carries out a ProgressBy. To measure, some of the first steps are made in one way and some in the other, in turn.
class ProgressChoice {
 public:
  /// `ranks` null: alone, if nothing is to be chosen. `cpus`: where the thread runs; empty: anywhere. Throws
  /// InputError if a thread is wanted and not possible. Collective.
  ProgressChoice(Communicator* ranks, ProgressBy wanted, std::vector<int> cpus);

  /// Called after each step with the seconds that the step took, by all ranks. Collective in one step: the last one
  /// that is measured.
  void step_took(double seconds);
  /// "progress by a thread: steps of 92.1 ms; by calls: 95.0 ms"; empty: nothing was measured.
  const std::string& finding() const { return finding_; }

 private:
  void choose();

  Communicator* ranks_;  ///< null: nothing is measured
  std::vector<int> cpus_;
  int steps_ = 0;
  double by_calls_ = 0, by_thread_ = 0;  ///< seconds
  std::string finding_;
};

}  // namespace keelson
