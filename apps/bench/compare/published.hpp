#pragma once

#include <string>
#include <vector>

namespace keelson::bench::comparison {

/// A figure that others have published about a machine, and its source.
struct PublishedFigure {
  std::string device;     ///< "H100 80GB"
  std::string machine;    ///< "NVIDIA Eos, 64 DGX H100"
  int devices = 1;        ///< GPUs, or nodes of processors, of the job
  std::string net, size;  ///< as --net and --size of `keelson-bench step`
  std::string quantity;   ///< "samples_per_second", "flops_per_second", "seconds_to_target" or "efficiency"
  double value = 0;       ///< of the whole job
  std::string precision;  ///< or that the source does not say it
  std::string what;       ///< what was measured, and how the value was computed from the source
  std::string source;     ///< publication or repository
  std::string where;      ///< place in it

  /// One device's share of a rate.
  double per_device() const { return value / devices; }
};

/// All figures of apps/bench/compare/published.json, which is part of the program.
const std::vector<PublishedFigure>& published_figures();

}  // namespace keelson::bench::comparison
