#pragma once

#include "backends/common/divider.hpp"
#include "backends/kokkos/loss/loss_rows.hpp"

/// Losses of wide rows on a GPU: `lanes` work items share a row. Each item takes every lanes-th element, so that a warp
/// reads neighbouring elements.
namespace keelson::kokkos {

/// The number of work items that share a row; 1: LossRows computes the row.
inline Index loss_lanes(const ops::LossParams& p, Index rows, Index features) {
  constexpr Index least = 64, enough = Index{1} << 16;
  const Index for_all = enough / rows < least ? least : enough / rows;
  // limited: one item combines the lanes of a row
  const Index most = p.kind == LossKind::cross_entropy ? least : for_all;
  const Index wanted = features / least;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

/// mse, mae, huber, binary_cross_entropy: one lane's part of the total, and its elements of the gradient.
struct DifferenceLane {
  LossRows o;
  Index lanes;
  double* parts;  ///< (row, lane)

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index r = item / lanes;
    const double share = o.share(r), scale = share / static_cast<double>(o.features);
    const double diff_scale = scale * o.gradient_scale();
    const float *x = o.prediction + r * o.features, *t = o.target + r / o.rows_per_sample * o.features;
    float* diff = o.diff ? o.diff + r * o.features : nullptr;
    double sum = 0;
    for (Index f = item % lanes; f < o.features; f += lanes) {
      const double from = static_cast<double>(x[f]), to = static_cast<double>(t[f]);
      if (share != 0) sum += o.one(from, to);
      if (diff) diff[f] = share == 0 ? 0.0f : static_cast<float>(diff_scale * o.slope(from, to));
    }
    parts[item] = share == 0 ? 0.0 : scale * sum;
  }
};

/// gaussian_nll: one lane's part of the total, and its targets' elements of the gradient.
struct GaussianLane {
  LossRows o;
  Index lanes;
  double* parts;  ///< (row, lane)

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index r = item / lanes, targets = o.features / 2;
    const double share = o.share(r), scale = share / static_cast<double>(targets);
    double sum = 0;
    for (Index f = item % lanes; f < targets; f += lanes) {
      if (share != 0) {
        sum += o.gaussian_at(r, f).loss;
        if (o.diff) o.store_gaussian(r, f, scale * o.gradient_scale());
      } else if (o.diff) {
        o.diff[r * o.features + f] = o.diff[r * o.features + targets + f] = 0;
      }
    }
    parts[item] = share == 0 ? 0.0 : scale * sum;
  }
};

/// First kernel of cross_entropy: the maximum and the sum of each lane. Not needed if the ranks have parts of the
/// classes, whose sums are there.
struct ClassLane {
  LossRows o;
  Index lanes;
  Exponentials* parts;  ///< (lane, row)

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index r = item / lanes, lane = item % lanes;
    parts[lane * o.rows + r] = of_lane(o.prediction + r * o.features, lane);
  }

  KOKKOS_FUNCTION Exponentials of_lane(const float* x, Index lane) const {
    float largest = x[lane];
    each(x, lane, [&](float v) { largest = v > largest ? v : largest; });
    double sum = 0;
    // A lane in which all predictions are -infinity adds nothing, but its sum would be NaN.
    if (largest != -Kokkos::Experimental::infinity_v<float>)
      each(x, lane, [&](float v) { sum += static_cast<double>(fast_exp(v - largest)); });
    return {sum, largest};
  }

  /// Calls use(v) for the lane's values, in order. Memory answers late, so several are read before the first is used.
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void each(const float* x, Index lane, const Use& use) const {
    constexpr int ahead = 8;
    Index f = lane;
    for (; f + (ahead - 1) * lanes < o.features; f += ahead * lanes) {
      float values[ahead];
      for (int k = 0; k < ahead; ++k) values[k] = x[f + k * lanes];
      for (int k = 0; k < ahead; ++k) use(values[k]);
    }
    for (; f < o.features; f += lanes) use(x[f]);
  }
};

/// Of a row, from its lanes.
KOKKOS_INLINE_FUNCTION Exponentials of_all_lanes(const Exponentials* parts, Index r, Index rows, Index lanes) {
  float largest = parts[r].largest;
  const auto each = [&](const auto& use) {
    constexpr int ahead = 8;  // parts that are read before the first is used
    Index s = 0;
    for (; s + ahead <= lanes; s += ahead) {
      Exponentials values[ahead];
      for (int k = 0; k < ahead; ++k) values[k] = parts[(s + k) * rows + r];
      for (int k = 0; k < ahead; ++k) use(values[k]);
    }
    for (; s < lanes; ++s) use(parts[s * rows + r]);
  };
  each([&](const Exponentials& part) { largest = part.largest > largest ? part.largest : largest; });
  double sum = 0;
  each([&](const Exponentials& part) {
    if (part.sum != 0) sum += part.sum * Kokkos::exp(static_cast<double>(part.largest) - largest);
  });
  return {sum, largest};
}

/// The numbers that the gradient of a row needs; all 0 for a row without weight.
struct ClassRow {
  double share;  ///< times the loss scale
  Exponentials all;
  Index wanted;  ///< the element of the row that is the target class; outside the row if another rank has that class
};

/// Second kernel of cross_entropy: the losses of the rows.
struct ClassTotal {
  LossRows o;
  Index lanes;
  const Exponentials* parts;  ///< of the lanes
  ClassRow* rows;
  double* losses;

  KOKKOS_FUNCTION void operator()(Index r) const {
    const double share = o.share(r);
    const Index c = o.class_of(r);
    if (share == 0 || c == -1) {
      rows[r] = {};
      losses[r] = 0;
      return;
    }
    const Exponentials all = o.class_sums ? o.of_all_parts(r) : of_all_lanes(parts, r, o.rows, lanes);
    const Index own = o.element_of(c);
    rows[r] = {share * o.gradient_scale(), all, own};
    const float* x = o.prediction + r * o.features;
    losses[r] = share * o.class_loss(c, o.is_own(own) ? x[own] : 0, all, o.below_largest(x, all.largest));
  }
};

/// Third kernel of cross_entropy: the gradient is softmax minus the unit vector of the class, element by element.
struct ClassGradient {
  LossRows o;
  const ClassRow* rows;
  Divider by_features;

  KOKKOS_FUNCTION void operator()(Index i) const {
    Index r = i;
    const Index f = by_features.split(r);
    const ClassRow row = rows[r];
    const float x = o.prediction[i];
    if (row.share == 0)
      o.diff[i] = 0;
    else if (f == row.wanted)
      o.diff[i] = static_cast<float>(row.share * o.wanted_slope(x, row.all));
    else
      o.diff[i] = fast_exp(x - row.all.largest) * static_cast<float>(row.share / row.all.sum) -
                  static_cast<float>(row.share * o.of_each_class());
  }
};

}  // namespace keelson::kokkos
