#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Measures how training speed grows with the number of ranks.
namespace keelson::lm {

struct ScalingRow {
  int ranks;
  std::int64_t batch;       ///< streams per rank
  double words_per_second;  ///< all ranks together
  double seconds_per_step;
  double exchange_share;  ///< share of a step: waiting for gradients, on the rank that waits longest
};

struct ScalingTable {
  std::string net, machine, device;
  bool strong = false;                ///< one global batch that the ranks share, instead of one per rank
  std::vector<ScalingRow> rows = {};  ///< the first row has one rank

  double speed_up(const ScalingRow& r) const { return r.words_per_second / rows.front().words_per_second; }
  double efficiency(const ScalingRow& r) const { return speed_up(r) / r.ranks; }
  std::string header() const;
  std::string line(const ScalingRow& r) const;
};

/// One HTML page with the table and its plots.
std::string render_scaling(const ScalingTable& t);

}  // namespace keelson::lm
