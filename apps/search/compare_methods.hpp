#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/run/table.hpp"

namespace keelson::search {

using Runs = std::vector<Course>;  ///< one for each seed

/// What the searches by one method have found. Quartiles are 25 %, 50 % and 75 % over the seeds.
struct MethodSummary {
  std::string name;
  std::vector<std::array<double, 3>> course;  ///< regret after each training
  std::array<double, 3> regret{};             ///< at the end
  double mean_rank = 0;          ///< at the end, among all methods of the same seed; equal ones share ranks
  std::optional<double> needed;  ///< trainings until the median regret is the baseline's at its end
};

/// Two methods on the same seeds.
struct PairTest {
  std::string a, b;
  std::int64_t better = 0, seeds = 0;  ///< seeds for which a ended with less regret
  double p = 1;  ///< of Wilcoxon's signed-rank test, two-sided, corrected for all pairs (Holm 1979)
};

struct Comparison {
  std::vector<MethodSummary> methods;  ///< by mean rank
  std::vector<PairTest> tests;         ///< the best method against each other one
  std::string baseline;
  std::int64_t trainings = 0, seeds = 0;  ///< of the baseline
};

/// Throws InputError if the methods have not the same number of seeds, or if there is no baseline.
Comparison compare_runs(const std::map<std::string, Runs>& runs, const std::string& baseline);

/// The two-sided p-value of Wilcoxon's signed-rank test, by the normal approximation with corrections for ties and
/// continuity (as scipy.stats.wilcoxon with zero_method="wilcox", correction=True, method="approx"). 1 without
/// differences.
double wilcoxon(const std::vector<double>& differences);

/// P-values corrected for their number by Holm's method.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace keelson::search
