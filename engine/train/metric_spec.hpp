#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace keelson {

/// How a network is judged; less is better. Target j in the units of the user is scale_j * value + offset_j.
struct MetricSpec {
  enum class Kind {
    absolute,    ///< mean |p - t| as the network sees them
    relative,    ///< mean |P - T| / |T| in the units of the user (CosmoFlow's paper)
    perplexity,  ///< exp(mean loss), for losses that are -log of a probability: knows neither predictions nor targets
  };
  struct Target {
    std::string name;  ///< "Omega_m"
    double scale = 1, offset = 0;
  };
  Kind kind = Kind::absolute;
  std::vector<Target> targets;

  std::string name() const;  ///< "MAE"
  /// A value of the metric for people: "0.1234"; perplexities "82.07", "121.4", "1214".
  std::string text(double value) const;
  /// Whether it compares predictions with targets, one by one.
  bool compares() const { return kind != Kind::perplexity; }
  /// Of one prediction; only where it compares.
  double error(std::size_t target, double predicted, double truth) const;
  /// Of a mean loss; only where it does not compare.
  double of_loss(double loss) const;
};

}  // namespace keelson
