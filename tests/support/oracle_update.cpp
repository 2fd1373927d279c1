#include <algorithm>
#include <cmath>

#include "tests/support/oracle.hpp"

namespace keelson::oracle {

double sum_squares(const Array& a) { return dot(a, a); }

OptimizerState update(OptimizerState s, Array diff, const ops::UpdateParams& p, const ops::StepState& state,
                      double global_sum_squares) {
  Array& w = s.param;
  const double lr = static_cast<double>(state.learning_rate) * p.lr_multiplier;
  const double w_norm = std::sqrt(sum_squares(w));

  // Global clip. LARC's |g| is the norm of the clipped gradient.
  double clip = 1;
  if (p.clip_norm > 0 && global_sum_squares > 0) clip = std::min(1.0, p.clip_norm / std::sqrt(global_sum_squares));
  for (auto& g : diff.data) g *= clip;
  const double g_norm = std::sqrt(sum_squares(diff));

  for (std::int64_t i = 0; i < w.elements(); ++i) diff[i] += static_cast<double>(p.weight_decay) * w[i];

  if (p.larc != ops::LarcMode::none) {
    double rate = w_norm > 0 && g_norm > 0 ? p.larc_eta * w_norm / g_norm : static_cast<double>(p.larc_floor);
    if (p.larc == ops::LarcMode::clip) rate = std::min(rate / (p.larc_relative ? lr : 1.0), 1.0);
    for (auto& g : diff.data) g *= rate;
  }

  const double t = static_cast<double>(state.step) + 1;
  for (std::int64_t i = 0; i < w.elements(); ++i) {
    const double g = diff[i];
    if (p.kind == ops::UpdateKind::sgd) {
      double step = g;
      if (p.momentum != 0) {
        s.moment1[i] = p.momentum * s.moment1[i] + g;
        step = p.nesterov ? g + p.momentum * s.moment1[i] : s.moment1[i];
      }
      w[i] -= lr * p.decoupled_decay * w[i];
      w[i] -= lr * step;
    } else {
      const double b1 = p.beta1, b2 = p.beta2;
      s.moment1[i] = b1 * s.moment1[i] + (1 - b1) * g;
      s.moment2[i] = b2 * s.moment2[i] + (1 - b2) * g * g;
      const double m = s.moment1[i] / (1 - std::pow(b1, t)), v = s.moment2[i] / (1 - std::pow(b2, t));
      w[i] -= lr * p.decoupled_decay * w[i];
      w[i] -= lr * m / (std::sqrt(v) + p.epsilon);
    }
  }
  return s;
}

}  // namespace keelson::oracle
