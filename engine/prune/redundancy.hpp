#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/prune/criteria.hpp"

namespace keelson {

/// What the channels of a value are at some places of some samples.
struct ChannelObservations {
  std::int64_t rows = 0;      ///< places
  std::vector<float> values;  ///< (rows, channels)
};
/// By the node that makes the value.
using ValueObservations = std::map<int, ChannelObservations>;

/// Mean, variance and activity of the observed channels.
ValueStatistics statistics_of(const ValueObservations& observations);

/// How far layers that multiply the units of a group can do without some of them, if the best linear combination of the
/// other units takes their place: h_j becomes c_0 + sum over i of c_i h_i. Its error in the results of these layers is
/// |a_j|^2 times the variance that remains of h_j. All coefficients together are the solution of a least squares
/// problem in the observations (Y. He, X. Zhang, J. Sun, "Channel Pruning for Accelerating Very Deep Neural Networks",
/// arXiv 1707.06168), and the units go one by one, each time that of the least error, as in optimal brain surgery
/// (B. Hassibi, D. Stork, G. Wolff 1993), whose Hessian matrix is here that of the layers' squared errors. A layer
/// without bias, and a recurrent layer, has no c_0. If units have several channels in a value (behind a flatten layer),
/// all have the same c_i, and c_0 of their own.
///
/// A function of the arguments alone. Time: units^3 and observations * units^2.
class UnitRedundancy {
 public:
  /// `observations` of all values that a layer multiplies (UnitReader::value), `gone`: units that are no longer there,
  /// and whose weights in `values` do not count. References must outlive this.
  UnitRedundancy(const UnitGroup& group, const std::map<std::string, Shape>& shapes, const ParameterValues& values,
                 const ValueObservations& observations, const std::vector<std::int64_t>& gone = {});

  /// The relative error of a removal by units_to_remove(), on the scale of Candidate::error.
  double error_of(const UnitRemoval& removal) const;
  /// A unit that can go, after those before it.
  struct Candidate {
    std::int64_t unit = 0;  ///< its number in the group
    /// Of this unit and all before it together: the squared error of the results of the layers that multiply the units,
    /// as a share of the results' variance, summed over these layers.
    double error = 0;
  };
  /// The first `most` units to go. One unit stays at least. Ties are broken by the unit's number.
  std::vector<Candidate> ranked(std::int64_t most) const;
  /// Changes `values` so that the rest of the network does without these units: adds their linear combinations to the
  /// outgoing weights of the other units and to biases.
  void replace(const std::vector<std::int64_t>& units, ParameterValues& values) const;

 private:
  using Matrix = std::vector<double>;  ///< (units, units)
  /// Layers that multiply the same values, all with a bias or all without. A parameter that several layers share may
  /// multiply several values.
  struct Source {
    std::vector<int> values;
    bool centered = true;                   ///< with biases
    std::vector<const UnitPlace*> places;   ///< at least one
    std::vector<std::vector<double>> mean;  ///< of each channel of each value; zeros unless centered
    Matrix moments;                         ///< of the units: mean of h_i h_j; covariances if centered
    Matrix gram;  ///< of the outgoing weights: a_i . a_j, over the variance of each layer's results
  };
  void observe(Source& source, const ValueObservations& observations) const;
  void add_weights(Source& source, const UnitPlace& place, const ParameterValues& values) const;
  /// For the moments of the units `kept` and `gone` of a source: the coefficients c of least squares, (kept, gone).
  Matrix coefficients(const Source& source, const std::vector<std::int64_t>& kept,
                      const std::vector<std::int64_t>& gone) const;
  Matrix part(const Matrix& whole, const std::vector<std::int64_t>& units) const;

  const UnitGroup& group_;
  const std::map<std::string, Shape>& shapes_;
  std::vector<Source> sources_;
  std::vector<std::int64_t> live_;  ///< units that are there, ascending
};

/// The outgoing weights of these units become zeros, so that the network computes what it would compute without them.
void silence(const UnitGroup& group, const std::vector<std::int64_t>& units, const std::map<std::string, Shape>& shapes,
             ParameterValues& values);

}  // namespace keelson
