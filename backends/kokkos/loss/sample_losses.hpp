#pragma once

#include "backends/kokkos/common/kernel.hpp"
#include "engine/ops/step_params.hpp"

namespace keelson::kokkos {

/// The losses of samples, from the terms of the loss of a batch: one work item adds up the terms of a sample, in their
/// order, and divides by the sample's part of the total.
struct SampleLosses {
  const ops::StepParams* step_params;
  const float* weight;
  const double* terms;  ///< (sample, per_sample)
  Index per_sample;
  float* losses;

  KOKKOS_FUNCTION void operator()(Index n) const {
    const double share = static_cast<double>(step_params->inverse_samples) * weight[n];
    double sum = 0;
    for (Index i = 0; i < per_sample; ++i) sum += terms[n * per_sample + i];
    losses[n] = share == 0 ? 0.0f : static_cast<float>(sum / share);
  }
};

}  // namespace keelson::kokkos
