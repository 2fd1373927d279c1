#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/rate_search.hpp"
#include "apps/label/images/features.hpp"
#include "engine/graph/graph.hpp"
#include "engine/ops/context.hpp"

namespace keelson::label {

/// How the networks are made and trained.
struct EnsembleOptions {
  std::int64_t members = 5;
  std::int64_t units = 64;   ///< of each of the two hidden layers; of images: of the layer behind the convolutions
  std::int64_t epochs = 60;  ///< of each round
  std::int64_t batch = 32;
  double lr = 0.002;
  double weight_decay = 0.01;
  float dropout = 0.2f;
  bool warm = true;  ///< a round begins with the weights of the round before
  std::uint64_t seed = 1;
};

/// An image and its class.
using Labelled = std::pair<std::int64_t, std::int64_t>;

/// What all members say about all images.
struct Predictions {
  std::int64_t images = 0, members = 0, classes = 0, units = 0;
  std::vector<float> p;       ///< (images, members, classes): probabilities
  std::vector<float> hidden;  ///< (images, members * units): the layer before the last, standardised over all images
  std::span<const float> of(std::int64_t image) const {
    return std::span(p).subspan(static_cast<std::size_t>(image * members * classes),
                                static_cast<std::size_t>(members * classes));
  }
};

/// Small networks that see the same features and differ in their initial weights and dropout.
class Ensemble {
 public:
  /// `context` and `features` must outlive the ensemble.
  Ensemble(Context& context, const Features& features, std::int64_t classes, EnsembleOptions o);
  /// Trains all members on these images. `round` decides the order of the samples. Throws InputError for no images, and
  /// Error if a member's loss is not finite.
  void train(const std::vector<Labelled>& labelled, std::int64_t round);
  /// Searches for learning rates with a new network of one member on these images, and writes into `folder`: as
  /// app::search_rates(). `session` has the context of this ensemble. Throws InputError for no images.
  ExitCode search_rates(const std::vector<Labelled>& labelled, const RateRangeOptions& rates,
                        const std::filesystem::path& folder, const app::DeviceSession& session) const;
  /// Of all images.
  Predictions predict() const;
  /// One checkpoint per member. Throws Error.
  void save(const std::filesystem::path& folder) const;
  /// Reads what save() has written; returns whether there was something to read. Throws InputError for other networks.
  bool load(const std::filesystem::path& folder);

 private:
  std::shared_ptr<const Optimizer> optimizer() const;

  Context& context_;
  const Features& features_;
  std::int64_t classes_;
  EnsembleOptions options_;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::vector<std::vector<float>>> weights_;  ///< (members) of each parameter; empty: not trained yet
};

/// What networks say that have not seen the image: the labelled images are dealt into `folds` parts, and each part is
/// judged by an ensemble that was trained on the others. (labelled, members, classes).
std::vector<float> held_out(Context& context, const Features& features, std::int64_t classes, const EnsembleOptions& o,
                            const std::vector<Labelled>& labelled, std::int64_t folds);

}  // namespace keelson::label
