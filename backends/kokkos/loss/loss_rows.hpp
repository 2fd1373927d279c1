#pragma once

#include "backends/kokkos/common/vector_math.hpp"
#include "engine/ops/loss.hpp"

/// One work item computes the loss of a row and the gradient.
namespace keelson::kokkos {

using ops::LossKind;

/// Of some predictions of a row: the largest, and the sum of exp(x - largest).
struct Exponentials {
  double sum;
  float largest;
};

struct LossRows {
  ops::LossParams p;
  const ops::StepParams* step_params;
  const ops::LossScale* loss_scale;
  const float* prediction;
  const float* target;
  const std::int32_t* classes;
  const float* weight;
  const float* importance;  ///< null: 1 for all
  float* diff;              ///< null: no gradient; may be `prediction`
  Index rows, features, rows_per_sample;
  bool class_per_row;
  const float* class_sums;  ///< (rows, 2 part.parts); null: the prediction has all classes
  ops::ClassPart part;

  KOKKOS_FUNCTION double gradient_scale() const { return loss_scale ? loss_scale->scale : 1.0f; }

  /// The weight of row r's loss in the total; 0 for padding, whose prediction may have any values.
  KOKKOS_FUNCTION double share(Index r) const {
    const Index sample = r / rows_per_sample;
    if (weight[sample] == 0) return 0;
    double all = static_cast<double>(step_params->inverse_samples) * weight[sample];
    if (importance) all *= static_cast<double>(importance[sample]);
    return p.sum_rows ? all : all / static_cast<double>(rows_per_sample);
  }

  /// The loss of prediction x for target t.
  KOKKOS_FUNCTION double one(double x, double t) const {
    if (p.kind == LossKind::mean) return x;
    const double d = x - t;
    if (p.kind == LossKind::mse) return d * d;
    if (p.kind == LossKind::binary_cross_entropy)  // cannot overflow
      return (x <= 0 ? 0 : x) - x * t + Kokkos::log1p(Kokkos::exp(-Kokkos::fabs(x)));
    const double a = Kokkos::fabs(d), delta = p.delta;
    if (p.kind == LossKind::mae) return a;
    return a <= delta ? 0.5 * d * d : delta * (a - 0.5 * delta);
  }

  /// Its derivative by x.
  KOKKOS_FUNCTION double slope(double x, double t) const {
    if (p.kind == LossKind::mean) return 1;
    const double d = x - t;
    if (p.kind == LossKind::mse) return 2 * d;
    if (p.kind == LossKind::binary_cross_entropy) {
      const double e = Kokkos::exp(-Kokkos::fabs(x));
      return (x > 0 ? 1 : e) / (1 + e) - t;
    }
    const double limit = p.kind == LossKind::mae ? 0.0 : static_cast<double>(p.delta);
    if (p.kind == LossKind::huber && Kokkos::fabs(d) <= limit) return d;
    const double unit = d > 0 ? 1.0 : d < 0 ? -1.0 : d;  // a NaN stays a NaN
    return p.kind == LossKind::huber ? limit * unit : unit;
  }

  KOKKOS_FUNCTION double difference_row(Index r, double share) const {
    const float *x = prediction + r * features, *t = target + r / rows_per_sample * features;
    const double scale = share / static_cast<double>(features);
    double sum = 0;
    for (Index f = 0; f < features; ++f) sum += one(static_cast<double>(x[f]), static_cast<double>(t[f]));
    // A separate loop, so that the loss has the same bits with and without a gradient.
    const double whole = scale * gradient_scale();
    for (Index f = 0; diff && f < features; ++f)
      diff[r * features + f] = static_cast<float>(whole * slope(static_cast<double>(x[f]), static_cast<double>(t[f])));
    return scale * sum;
  }

  /// gaussian_nll of one target, and the derivatives by d and by s.
  struct Gaussian {
    double loss, by_mean, by_spread;
  };
  KOKKOS_FUNCTION static Gaussian gaussian(double d, double s) {
    const double e = Kokkos::exp(-Kokkos::fabs(s));  // cannot overflow: softplus(s) = max(s, 0) + log(1 + e)
    const double variance = (s < 0 ? 0 : s) + Kokkos::log1p(e) + static_cast<double>(ops::least_variance);
    const double by_softplus = (s > 0 ? 1 : e) / (1 + e), relative = d / variance;
    return {0.5 * (d * relative + Kokkos::log(variance)), relative,
            0.5 * by_softplus * (1 / variance - relative * relative)};
  }

  /// Of target f of row r.
  KOKKOS_FUNCTION Gaussian gaussian_at(Index r, Index f) const {
    const Index targets = features / 2;
    const float* x = prediction + r * features;
    return gaussian(static_cast<double>(x[f]) - target[r / rows_per_sample * targets + f],
                    static_cast<double>(x[targets + f]));
  }

  KOKKOS_FUNCTION double gaussian_row(Index r, double share) const {
    const Index targets = features / 2;
    const double scale = share / static_cast<double>(targets);
    double sum = 0;
    for (Index f = 0; f < targets; ++f) sum += gaussian_at(r, f).loss;
    for (Index f = 0; diff && f < targets; ++f) store_gaussian(r, f, scale * gradient_scale());
    return scale * sum;
  }

  KOKKOS_FUNCTION void store_gaussian(Index r, Index f, double scale) const {
    const Gaussian g = gaussian_at(r, f);
    diff[r * features + f] = static_cast<float>(scale * g.by_mean);
    diff[r * features + features / 2 + f] = static_cast<float>(scale * g.by_spread);
  }

  KOKKOS_FUNCTION void zero_row(Index r) const {
    if (!diff) return;
    for (Index f = 0; f < features; ++f) diff[r * features + f] = 0;
  }

  /// The class of row r; -1: the row does not count.
  KOKKOS_FUNCTION Index class_of(Index r) const { return classes[class_per_row ? r : r / rows_per_sample]; }
  /// The element of the row that is the prediction of class c; outside [0, features) if another rank has this class.
  KOKKOS_FUNCTION Index element_of(Index c) const { return c - static_cast<Index>(part.first); }
  KOKKOS_FUNCTION bool is_own(Index element) const { return element >= 0 && element < features; }

  /// Number of classes of all ranks.
  KOKKOS_FUNCTION Index all_classes() const { return class_sums ? static_cast<Index>(part.all) : features; }
  /// The probability that the target of a row gives to each class, beside what its class gets.
  KOKKOS_FUNCTION double of_each_class() const {
    return static_cast<double>(p.label_smoothing) / static_cast<double>(all_classes());
  }

  /// -log softmax(x)[c] = log(sum exp(x - max)) + max - x[c], which cannot overflow; 0 if another rank has the class c.
  /// `all`: of the predictions of all classes. `wanted`: x[c], if this rank has the class. With label smoothing each
  /// class c' of this rank adds of_each_class() (x[c] - x[c']); `below`: below_largest().
  KOKKOS_FUNCTION double class_loss(Index c, float wanted, const Exponentials& all, double below) const {
    if (c < 0 || c >= all_classes()) return Kokkos::Experimental::quiet_NaN_v<double>;
    const bool own = is_own(element_of(c));
    const double loss = own ? Kokkos::log(all.sum) + (static_cast<double>(all.largest) - wanted) : 0.0;
    if (p.label_smoothing == 0) return loss;
    const double moved = own ? static_cast<double>(p.label_smoothing) * (static_cast<double>(wanted) - all.largest) : 0;
    return loss + moved - of_each_class() * below;
  }
  /// The sum of x - largest over the predictions of a row; 0 without label smoothing, which alone needs it.
  KOKKOS_FUNCTION double below_largest(const float* x, float largest) const {
    double sum = 0;
    for (Index f = 0; p.label_smoothing != 0 && f < features; ++f) sum += static_cast<double>(x[f]) - largest;
    return sum;
  }

  /// Of all classes of row r, from the sums of all parts. A part of predictions that are all -infinity adds nothing.
  KOKKOS_FUNCTION Exponentials of_all_parts(Index r) const {
    const float* sums = class_sums + r * 2 * part.parts;
    float largest = sums[0];
    for (int s = 1; s < part.parts; ++s) largest = sums[2 * s] > largest ? sums[2 * s] : largest;
    double sum = 0;
    for (int s = 0; s < part.parts; ++s)
      if (sums[2 * s + 1] != 0)
        sum += static_cast<double>(sums[2 * s + 1]) * Kokkos::exp(static_cast<double>(sums[2 * s]) - largest);
    return {sum, largest};
  }

  /// The gradient is softmax minus the unit vector of the class. The row stays in the cache while this function reads
  /// and writes it.
  KOKKOS_FUNCTION double class_row(Index r, double share) const {
    const Index c = class_of(r), own = element_of(c);
    if (c == -1) return zero_row(r), 0.0;
    const float* x = prediction + r * features;
    const float wanted = is_own(own) ? x[own] : 0;
    Exponentials all = class_sums ? of_all_parts(r) : Exponentials{0, maximum(x)};
    const double below = below_largest(x, all.largest);  // now, since the gradient may take the place of x
    if (diff || !class_sums) {
      const double sum =
          diff ? exponentials<true>(x, all.largest, diff + r * features) : exponentials<false>(x, all.largest, nullptr);
      if (!class_sums) all.sum = sum;
    }
    if (diff) {
      float* d = diff + r * features;
      const double whole = share * gradient_scale();
      const auto scale = static_cast<float>(whole / all.sum), less = static_cast<float>(whole * of_each_class());
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index f = 0; f < features; ++f) d[f] = d[f] * scale - less;
      if (is_own(own)) d[own] = static_cast<float>(whole * wanted_slope(wanted, all));
    }
    return share * class_loss(c, wanted, all, below);
  }

  /// The gradient by the prediction of the target class. Computed apart, since softmax - 1 cancels if the prediction is
  /// nearly certain.
  KOKKOS_FUNCTION double wanted_slope(float x, const Exponentials& all) const {
    const double certain = 1 - static_cast<double>(p.label_smoothing);
    return Kokkos::exp(static_cast<double>(x) - all.largest) / all.sum - certain - of_each_class();
  }

  static constexpr int lanes = runs_on_host ? 16 : 1;

  KOKKOS_FUNCTION float maximum(const float* x) const {
    float most[lanes];
    for (int l = 0; l < lanes; ++l) most[l] = x[0];
    Index f = 0;
    for (; f + lanes <= features; f += lanes)
      for (int l = 0; l < lanes; ++l) most[l] = x[f + l] > most[l] ? x[f + l] : most[l];
    for (; f < features; ++f) most[0] = x[f] > most[0] ? x[f] : most[0];
    for (int l = 1; l < lanes; ++l) most[0] = most[l] > most[0] ? most[l] : most[0];
    return most[0];
  }

  /// The sum of the exponentials, in double after at most 64 additions in float. `store`: stores the exponentials, too.
  template <bool store>
  KOKKOS_FUNCTION double exponentials(const float* x, float largest, float* to) const {
    double sum = 0;
    Index f = 0;
    while (f + lanes <= features) {
      float part[lanes] = {};
      const Index left = (features - f) / lanes, turns = left < 64 ? left : 64;
      for (Index turn = 0; turn < turns; ++turn, f += lanes)
        for (int l = 0; l < lanes; ++l) {
          const float e = fast_exp(x[f + l] - largest);
          if constexpr (store) to[f + l] = e;
          part[l] += e;
        }
      for (int l = 0; l < lanes; ++l) sum += static_cast<double>(part[l]);
    }
    for (; f < features; ++f) {
      const float e = fast_exp(x[f] - largest);
      if constexpr (store) to[f] = e;
      sum += static_cast<double>(e);
    }
    return sum;
  }

  KOKKOS_FUNCTION double row(Index r) const {
    const double s = share(r);
    if (s == 0) return zero_row(r), 0.0;
    if (p.kind == LossKind::cross_entropy) return class_row(r, s);
    return p.kind == LossKind::gaussian_nll ? gaussian_row(r, s) : difference_row(r, s);
  }
};

}  // namespace keelson::kokkos
