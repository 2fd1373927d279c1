#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/minerva/data/event_dataset.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson::minerva {

/// Where vertices really are along z, and where the middle of each class is.
class VertexPlaces {
 public:
  /// Reads the vertices of all events. Collective.
  explicit VertexPlaces(const EventDataset& events);
  /// z of the predicted class less the true z, mm. Not finite for events whose class has no place: an unknown vertex
  /// (planecode 0), the class of all planecodes from some on, and predictions of a class that no event has. The place
  /// of a class is the mean z of its events.
  double residual(std::int64_t event, std::int64_t predicted) const;

 private:
  bool has_place(std::int64_t class_number) const;

  bool planecodes_;
  std::vector<float> z_;
  std::vector<std::int32_t> classes_;  ///< of the events
  std::vector<double> middle_;         ///< of the classes; NaN: no event
};

/// The root mean square of the residuals in z, their histogram, and what is predicted for the first events, which
/// reports draw. Sums are exact: the same on any number of ranks.
class VertexMetric final : public Metric {
 public:
  static constexpr std::int64_t drawn_events = 6;  ///< that predicted() has, at most
  static constexpr int bins = 81;                  ///< of the histogram, the first and last with all beyond
  static constexpr double bin_width = 10;          ///< mm; the middle bin is about zero

  explicit VertexMetric(std::shared_ptr<const VertexPlaces> places) : places_(std::move(places)) {}
  std::string name() const override { return "RMS of the residual in z"; }
  void reset(const MetricSetup& setup) override;
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override { return rms(); }

  double rms() const;                                    ///< mm; NaN if no event has a residual
  double mean() const;                                   ///< mm
  double within_plane() const;                           ///< share of the residuals of at most a plane's pitch
  std::int64_t events() const { return counts_[bins]; }  ///< with a residual
  /// Events of each bin.
  std::vector<std::int64_t> histogram() const { return {counts_.begin(), counts_.begin() + bins}; }
  /// The predicted classes of the first events of the data set.
  std::vector<std::int64_t> predicted() const;

 private:
  std::shared_ptr<const VertexPlaces> places_;
  std::int64_t classes_ = 0, samples_ = 0;
  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(bins + 2);  ///< bins, all, within a plane
  std::vector<std::int64_t> predicted_;  ///< of the first events, plus 1; 0: of another rank
  std::vector<ExactSum> sums_ = std::vector<ExactSum>(2);
};

}  // namespace keelson::minerva
