#include "apps/label/choose/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/ensemble/scores.hpp"

namespace keelson::label {
namespace {

constexpr std::int64_t candidates_per_image = 4;

/// `values` in an order that the key decides.
std::vector<std::int64_t> shuffled(std::vector<std::int64_t> values, const philox::Key& key) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[philox::below(key, i, i)]);
  return values;
}

double score_of(const std::string& by, const Opinion& o) {
  if (by == "margin") return o.margin;
  if (by == "bald") return o.bald;
  if (by == "entropy") return o.entropy;
  refuse("a choice by '{}': expected margin, bald, entropy or random", by);
}

/// The probability of at least `right` successes of `count`, each of probability p.
double tail(std::int64_t right, std::int64_t count, double p) {
  const auto n = static_cast<double>(count);
  double sum = 0;
  for (std::int64_t i = right; i <= count; ++i) {
    const auto k = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) +
                    (n - k) * std::log1p(-p));
  }
  return sum;
}

/// Adds the distance of each candidate to row `centre` of the points to `nearest`.
void approach(std::span<const float> points, std::int64_t dims, const std::vector<std::int64_t>& candidates,
              std::int64_t centre, std::vector<double>& nearest) {
  const float* c = points.data() + centre * dims;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const float* f = points.data() + candidates[i] * dims;
    float sum = 0;
    for (std::int64_t d = 0; d < dims; ++d) sum += (f[d] - c[d]) * (f[d] - c[d]);
    nearest[i] = std::min(nearest[i], static_cast<double>(sum));
  }
}

/// The coordinate of each row along the first principal component of the rows, by power iteration.
std::vector<double> principal_coordinates(std::span<const float> rows, std::int64_t dims) {
  const std::int64_t n = std::ssize(rows) / dims;
  std::vector<double> mean(static_cast<std::size_t>(dims)), axis(mean.size(), 1), along(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n * dims; ++i)
    mean[static_cast<std::size_t>(i % dims)] +=
        static_cast<double>(rows[static_cast<std::size_t>(i)]) / static_cast<double>(n);
  const auto centred = [&](std::int64_t i, std::int64_t d) {
    return static_cast<double>(rows[static_cast<std::size_t>(i * dims + d)]) - mean[static_cast<std::size_t>(d)];
  };
  constexpr int iterations = 30;
  for (int it = 0; it <= iterations; ++it) {
    double norm = 0;
    for (const double a : axis) norm += a * a;
    for (double& a : axis) a = norm > 0 ? a / std::sqrt(norm) : 1;
    for (std::int64_t i = 0; i < n; ++i) {
      along[static_cast<std::size_t>(i)] = 0;
      for (std::int64_t d = 0; d < dims; ++d)
        along[static_cast<std::size_t>(i)] += centred(i, d) * axis[static_cast<std::size_t>(d)];
    }
    if (it == iterations) break;
    std::ranges::fill(axis, 0);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t d = 0; d < dims; ++d)
        axis[static_cast<std::size_t>(d)] += along[static_cast<std::size_t>(i)] * centred(i, d);
  }
  return along;
}

}  // namespace

std::int64_t Opinion::best() const { return std::ranges::max_element(p) - p.begin(); }

Opinion opinion_of(std::span<const float> members, std::int64_t classes) {
  KEELSON_EXPECT(classes > 1 && !members.empty() && std::ssize(members) % classes == 0);
  const std::int64_t count = std::ssize(members) / classes;
  Opinion o;
  o.p.resize(static_cast<std::size_t>(classes));
  std::vector<double> one(o.p.size());
  double within = 0;
  for (std::int64_t m = 0; m < count; ++m) {
    for (std::size_t k = 0; k < one.size(); ++k)
      one[k] = static_cast<double>(members[static_cast<std::size_t>(m * classes) + k]);
    within += ensemble::entropy(one) / static_cast<double>(count);
    for (std::size_t k = 0; k < one.size(); ++k) o.p[k] += one[k] / static_cast<double>(count);
  }
  const auto best = static_cast<std::size_t>(o.best());
  double second = 0, squares = 0;
  for (std::size_t k = 0; k < o.p.size(); ++k)
    if (k != best) second = std::max(second, o.p[k]);
  for (std::int64_t m = 0; m < count; ++m) {
    const double d = static_cast<double>(members[static_cast<std::size_t>(m * classes) + best]) - o.p[best];
    squares += d * d;
  }
  o.std = std::sqrt(squares / static_cast<double>(count));
  o.margin = 1 - (o.p[best] - second);
  o.entropy = ensemble::entropy(o.p);
  o.bald = std::max(0.0, o.entropy - within);
  return o;
}

std::vector<std::int64_t> k_centre(std::span<const float> points, std::int64_t dims,
                                   const std::vector<std::int64_t>& candidates,
                                   const std::vector<std::int64_t>& centres, std::int64_t count) {
  std::vector<double> nearest(candidates.size(), std::numeric_limits<double>::infinity());
  for (const std::int64_t c : centres) approach(points, dims, candidates, c, nearest);
  std::vector<std::int64_t> chosen;
  while (std::ssize(chosen) < std::min(count, std::ssize(candidates))) {
    const auto farthest = std::ranges::max_element(nearest) - nearest.begin();
    const std::int64_t image = candidates[static_cast<std::size_t>(farthest)];
    chosen.push_back(image);
    approach(points, dims, candidates, image, nearest);
    nearest[static_cast<std::size_t>(farthest)] = -1;  // never again
  }
  return chosen;
}

Batch choose_batch(const BatchOptions& o, const std::vector<Opinion>& opinions, std::span<const float> points,
                   std::int64_t dims, const std::vector<std::int64_t>& left,
                   const std::vector<std::int64_t>& labelled) {
  const std::int64_t count = std::min(o.count, std::ssize(left));
  const philox::Key key{o.seed, philox::stream_of("label/batch"), static_cast<std::uint64_t>(o.round)};
  auto rest = shuffled(left, key);
  Batch batch;
  const auto audit = o.by == "random" ? count : std::llround(o.audit * static_cast<double>(count));
  batch.audit.assign(rest.begin(), rest.begin() + audit);
  if (audit == count) return batch;
  rest.erase(rest.begin(), rest.begin() + audit);
  std::ranges::sort(rest);
  const auto score = [&](std::int64_t i) { return score_of(o.by, opinions[static_cast<std::size_t>(i)]); };
  std::ranges::stable_sort(rest, [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
  const std::int64_t wanted = count - audit;
  if (!o.spread) {
    batch.images.assign(rest.begin(), rest.begin() + wanted);
    return batch;
  }
  rest.resize(static_cast<std::size_t>(std::min(std::ssize(rest), candidates_per_image * o.count)));
  auto centres = labelled;
  centres.insert(centres.end(), batch.audit.begin(), batch.audit.end());
  batch.images = k_centre(points, dims, rest, centres, wanted);
  std::ranges::stable_sort(batch.images, [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
  return batch;
}

double least_accuracy(std::int64_t right, std::int64_t count, double confidence) {
  KEELSON_EXPECT(right >= 0 && right <= count);
  if (right == 0) return 0;
  if (right == count) return std::pow(1 - confidence, 1 / static_cast<double>(count));
  double low = 0, high = 1;
  constexpr int halvings = 60;
  for (int i = 0; i < halvings; ++i) {
    const double p = (low + high) / 2;
    (tail(right, count, p) < 1 - confidence ? low : high) = p;
  }
  return low;
}

double most_accuracy(std::int64_t right, std::int64_t count, double confidence) {
  return 1 - least_accuracy(count - right, count, confidence);
}

std::optional<double> supported_confidence(std::vector<JudgedPrediction> predictions, double target,
                                           double confidence) {
  std::ranges::sort(predictions, std::greater{}, &JudgedPrediction::p);
  std::optional<double> least;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    right += predictions[i].right ? 1 : 0;
    const bool is_last_of_equals = i + 1 == predictions.size() || predictions[i + 1].p < predictions[i].p;
    if (is_last_of_equals && least_accuracy(right, static_cast<std::int64_t>(i) + 1, confidence) >= target)
      least = predictions[i].p;
  }
  return least;
}

std::vector<std::int64_t> first_images(std::span<const float> features, std::int64_t dims, std::int64_t count,
                                       std::uint64_t seed) {
  const std::int64_t n = std::ssize(features) / dims;
  count = std::min(count, n);
  const auto along = principal_coordinates(features, dims);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return along[static_cast<std::size_t>(a)] < along[static_cast<std::size_t>(b)];
  });
  const philox::Key key{seed, philox::stream_of("label/first"), 0};
  std::vector<std::int64_t> chosen;
  for (std::int64_t part = 0; part < count; ++part) {
    const std::int64_t begin = part * n / count, end = (part + 1) * n / count;
    const auto drawn = philox::below(key, static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(end - begin));
    chosen.push_back(order[static_cast<std::size_t>(begin) + drawn]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::optional<std::string> reason_to_stop(const Progress& p, const StopRule& rule) {
  if (p.left == 0) return "all images have labels";
  const double least = least_accuracy(p.audit_right, p.audit, rule.confidence);
  if (p.audit > 0 && least >= rule.target)
    return fmt::format("of {} audit labels {} were predicted, so at least {:.2f} % of the rest are right ({:g} % sure)",
                       p.audit, p.audit_right, 100 * least, 100 * rule.confidence);
  const auto n = static_cast<std::size_t>(rule.rounds);
  if (rule.rounds > 0 && p.changes.size() >= n &&
      std::all_of(p.changes.end() - rule.rounds, p.changes.end(), [&](double c) { return c < rule.change; }))
    return fmt::format("in each of the last {} rounds less than {:g} % of the predictions have changed", rule.rounds,
                       100 * rule.change);
  return std::nullopt;
}

std::string describe(const Progress& p, const StopRule& rule) {
  std::string text;
  if (p.audit > 0)
    text = fmt::format(
        "of {} audit labels {} were predicted ({:.1f} %): at least {:.1f} % of the rest are right ({:g} % sure)",
        p.audit, p.audit_right, 100 * static_cast<double>(p.audit_right) / static_cast<double>(p.audit),
        100 * least_accuracy(p.audit_right, p.audit, rule.confidence), 100 * rule.confidence);
  else
    text = "no audit labels yet";
  if (!p.changes.empty()) text += fmt::format("; {:.2f} % of the predictions have changed", 100 * p.changes.back());
  return text;
}

ConfidentJoint confident_joint(std::span<const double> p, std::span<const std::int64_t> labels, std::int64_t classes) {
  const auto k = static_cast<std::size_t>(classes);
  KEELSON_EXPECT(p.size() == labels.size() * k);
  ConfidentJoint joint{classes, std::vector<double>(k), std::vector<std::int64_t>(k * k), {}};
  std::vector<double> of_class(k);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    joint.thresholds[label] += p[i * k + label];
    of_class[label] += 1;
  }
  for (std::size_t c = 0; c < k; ++c)
    joint.thresholds[c] = of_class[c] > 0 ? joint.thresholds[c] / of_class[c] : std::numeric_limits<double>::infinity();
  constexpr double rounding = 1e-12;  // a class whose probabilities are all alike reaches its own mean
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::optional<std::size_t> best;
    for (std::size_t c = 0; c < k; ++c)
      if (p[i * k + c] >= joint.thresholds[c] - rounding && (!best || p[i * k + c] > p[i * k + *best])) best = c;
    if (!best) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    ++joint.counts[label * k + *best];
    if (*best != label) joint.wrong.push_back(static_cast<std::int64_t>(i));
  }
  const auto of_label = [&](std::int64_t i) {
    return p[static_cast<std::size_t>(i) * k + static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])];
  };
  std::ranges::stable_sort(joint.wrong, [&](std::int64_t a, std::int64_t b) { return of_label(a) < of_label(b); });
  return joint;
}

double el2n(std::span<const float> members, std::int64_t classes, std::int64_t label) {
  const std::int64_t count = std::ssize(members) / classes;
  double sum = 0;
  for (std::int64_t m = 0; m < count; ++m) {
    double squares = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double d = static_cast<double>(members[static_cast<std::size_t>(m * classes + k)]) - (k == label ? 1 : 0);
      squares += d * d;
    }
    sum += std::sqrt(squares);
  }
  return sum / static_cast<double>(count);
}

}  // namespace keelson::label
