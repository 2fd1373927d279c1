#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

double sum_squares(const Array& a) { return dot(a, a); }

ops::LossScale check_gradients(ops::LossScale now, const ops::CheckGradientsDesc& d, const Array& sums) {
  ops::LossScale next = now;
  next.unscale = 1 / now.scale;
  const bool good = std::all_of(sums.data.begin(), sums.data.end(), [](double s) { return std::isfinite(s); });
  next.skip = good ? 0 : 1;
  if (!good) ++next.skipped;
  if (!d.dynamic) return next;
  if (!good) {
    next.scale = std::max(1.0f, now.scale * d.backoff);
    next.good_steps = 0;
  } else if (++next.good_steps == d.interval) {
    next.scale = std::min(std::ldexp(1.0f, 24), now.scale * d.growth);
    next.good_steps = 0;
  }
  return next;
}

OptimizerState update(OptimizerState s, Array diff, const ops::UpdateParams& p, const ops::StepParams& now,
                      double global_sum_squares, bool lars_norms, const ops::LossScale& scale) {
  if (scale.skip) return s;
  Array& w = s.param;
  const double lr = static_cast<double>(now.learning_rate) * p.lr_multiplier;
  const double w_norm = std::sqrt(sum_squares(w));

  const double unscale = scale.unscale;
  for (auto& g : diff.data) g *= unscale;

  // Global clip. LARC's |g| is the norm of the clipped gradient.
  double clip = 1;
  if (p.clip_norm > 0 && global_sum_squares > 0)
    clip = std::min(1.0, p.clip_norm / (unscale * std::sqrt(global_sum_squares)));
  for (auto& g : diff.data) g *= clip;
  const double g_norm = std::sqrt(sum_squares(diff));

  const double decay = p.weight_decay;
  for (std::int64_t i = 0; i < w.elements(); ++i) diff[i] += decay * w[i];

  if (p.kind == ops::UpdateKind::lars) {
    double rate = 1;
    if (lars_norms && w_norm != 0 && g_norm != 0) rate = p.lars_eta * w_norm / (g_norm + decay * w_norm + p.epsilon);
    for (std::int64_t i = 0; i < w.elements(); ++i) {
      double v = p.rate_in_momentum ? lr * rate * diff[i] : rate * diff[i];
      if (p.momentum != 0) v = s.moment1[i] = p.momentum * s.moment1[i] + v;
      w[i] -= p.rate_in_momentum ? v : lr * v;
    }
    return s;
  }

  if (p.larc != ops::LarcMode::none) {
    double rate = w_norm > 0 && g_norm > 0 ? p.larc_eta * w_norm / g_norm : static_cast<double>(p.larc_floor);
    if (p.larc == ops::LarcMode::clip) rate = std::min(rate / (p.larc_relative ? lr : 1.0), 1.0);
    for (auto& g : diff.data) g *= rate;
  }

  const double t = static_cast<double>(now.step) + 1;
  for (std::int64_t i = 0; i < w.elements(); ++i) {
    const double g = diff[i];
    if (p.kind != ops::UpdateKind::schedule_free) w[i] -= lr * p.decoupled_decay * w[i];
    switch (p.kind) {
      case ops::UpdateKind::sgd: {
        double step = g;
        if (p.momentum != 0) {
          s.moment1[i] = p.momentum * s.moment1[i] + g;
          step = p.nesterov ? g + p.momentum * s.moment1[i] : s.moment1[i];
        }
        w[i] -= lr * step;
        break;
      }
      case ops::UpdateKind::adam: {
        const double b1 = p.beta1, b2 = p.beta2;
        s.moment1[i] = b1 * s.moment1[i] + (1 - b1) * g;
        s.moment2[i] = b2 * s.moment2[i] + (1 - b2) * g * g;
        const double m = s.moment1[i] / (1 - std::pow(b1, t)), v = s.moment2[i] / (1 - std::pow(b2, t));
        w[i] -= lr * m / (std::sqrt(v) + p.epsilon);
        break;
      }
      case ops::UpdateKind::lion: {
        const double m = s.moment1[i], direction = p.beta1 * m + (1 - static_cast<double>(p.beta1)) * g;
        s.moment1[i] = p.beta2 * m + (1 - static_cast<double>(p.beta2)) * g;
        w[i] -= std::isnan(direction) ? direction : lr * static_cast<double>((direction > 0) - (direction < 0));
        break;
      }
      case ops::UpdateKind::schedule_free: {  // z itself is the state of the paper
        const double b1 = p.beta1, b2 = p.beta2,
                     c = now.averaging_weight > 0 ? now.averaging_weight
                         : lr > 0                 ? 1 / t
                                                  : 0;
        const double y = w[i] + s.moment1[i], z = w[i] + s.moment1[i] / (1 - b1);
        s.moment2[i] = b2 * s.moment2[i] + (1 - b2) * g * g;
        const double u = g / (std::sqrt(s.moment2[i] / (1 - std::pow(b2, t))) + p.epsilon) + p.decoupled_decay * y;
        const double next_z = z - lr * u;
        s.moment1[i] = (1 - b1) * (1 - c) * (next_z - w[i]);  // (1 - b1) next_z + b1 w - w, with the new w
        w[i] = (1 - c) * w[i] + c * next_z;
        break;
      }
      case ops::UpdateKind::lars:
        fail("lars has a step of its own above");
    }
  }
  return s;
}

Array lamb_direction(OptimizerState& s, const Array& diff, const ops::LambParams& p, const ops::StepParams& now,
                     double global_sum_squares, const ops::LossScale& scale) {
  Array u(diff.shape);
  if (scale.skip) return u;
  const double t = static_cast<double>(now.step) + 1, b1 = p.beta1, b2 = p.beta2, unscale = scale.unscale;
  double c = 1;
  if (p.clip_norm > 0) c = std::max(1.0, unscale * std::sqrt(global_sum_squares) / p.clip_norm);
  for (std::int64_t i = 0; i < u.elements(); ++i) {
    const double w = s.param[i], x = diff[i] * unscale / c + static_cast<double>(p.weight_decay) * w;
    s.moment1[i] = b1 * s.moment1[i] + (p.average_gradients ? 1 - b1 : 1.0) * x;
    s.moment2[i] = b2 * s.moment2[i] + (1 - b2) * x * x;
    const double m = s.moment1[i] / (1 - std::pow(b1, t)), v = s.moment2[i] / (1 - std::pow(b2, t));
    u[i] = m / (std::sqrt(v) + p.epsilon) + static_cast<double>(p.decoupled_decay) * w;
  }
  return u;
}

void lamb_step(Array& param, const Array& direction, const ops::LambStepDesc& d, const ops::StepParams& now,
               bool scaled, const ops::LossScale& scale) {
  if (scale.skip) return;
  const double w_norm = std::sqrt(sum_squares(param)), u_norm = std::sqrt(sum_squares(direction));
  double ratio = 1;
  if (scaled && w_norm != 0 && u_norm != 0)
    ratio = std::clamp(w_norm, static_cast<double>(d.norm_min), static_cast<double>(d.norm_max)) / u_norm;
  const double rate = static_cast<double>(now.learning_rate) * d.lr_multiplier * ratio;
  for (std::int64_t i = 0; i < param.elements(); ++i) param[i] -= rate * direction[i];
}

Array orthogonalize(const Array& src, const ops::OrthogonalizeDesc& d) {
  const std::int64_t rows = src.shape[0], columns = src.elements() / rows;
  const double norm = std::sqrt(sum_squares(src));
  Array x = src;
  for (auto& v : x.data) v /= std::max(norm, static_cast<double>(d.epsilon));
  // Of a matrix with more rows than columns: x^T x in place of x x^T.
  const bool tall = rows > columns;
  const std::int64_t edge = tall ? columns : rows, other = tall ? rows : columns;
  const auto at = [&](const Array& m, std::int64_t e, std::int64_t o) {
    return m[tall ? o * columns + e : e * columns + o];
  };
  for (int step = 0; step < d.steps; ++step) {
    Array gram({edge, edge}), polynomial({edge, edge});
    for (std::int64_t i = 0; i < edge; ++i)
      for (std::int64_t j = 0; j < edge; ++j)
        for (std::int64_t k = 0; k < other; ++k) gram[i * edge + j] += at(x, i, k) * at(x, j, k);
    for (std::int64_t i = 0; i < edge; ++i)
      for (std::int64_t j = 0; j < edge; ++j) {
        double square = 0;
        for (std::int64_t k = 0; k < edge; ++k) square += gram[i * edge + k] * gram[k * edge + j];
        polynomial[i * edge + j] = (i == j ? static_cast<double>(d.a) : 0) +
                                   static_cast<double>(d.b) * gram[i * edge + j] + static_cast<double>(d.c) * square;
      }
    Array next(src.shape);
    for (std::int64_t i = 0; i < edge; ++i)
      for (std::int64_t k = 0; k < other; ++k) {
        double sum = 0;
        for (std::int64_t j = 0; j < edge; ++j) sum += polynomial[i * edge + j] * at(x, j, k);
        next[tall ? k * columns + i : i * columns + k] = sum;
      }
    x = next;
  }
  return x;
}

Array muon_direction(OptimizerState& s, const Array& diff, const ops::MuonDirectionDesc& d, double global_sum_squares,
                     const ops::LossScale& scale) {
  Array u(diff.shape);
  if (scale.skip) return u;
  const double unscale = scale.unscale, momentum = d.momentum;
  double c = 1;
  if (d.clip_norm > 0) c = std::max(1.0, unscale * std::sqrt(global_sum_squares) / d.clip_norm);
  for (std::int64_t i = 0; i < u.elements(); ++i) {
    const double x = diff[i] * unscale / c;
    s.moment1[i] = momentum * s.moment1[i] + (1 - momentum) * x;
    u[i] = d.nesterov ? (1 - momentum) * x + momentum * s.moment1[i] : s.moment1[i];
  }
  return u;
}

void muon_step(Array& param, const Array& direction, const ops::MuonStepDesc& d, const ops::StepParams& now,
               const ops::LossScale& scale) {
  if (scale.skip) return;
  const double lr = static_cast<double>(now.learning_rate) * d.lr_multiplier;
  for (std::int64_t i = 0; i < param.elements(); ++i)
    param[i] = (1 - lr * d.decoupled_decay) * param[i] - lr * d.rate * direction[i];
}

}  // namespace keelson::oracle
