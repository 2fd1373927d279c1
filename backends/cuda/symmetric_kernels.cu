#include "backends/cuda/symmetric_kernels.hpp"

#include "backends/kokkos/common/parallel_sum.hpp"

namespace keelson::cuda {

namespace {

using kokkos::Index;

/// f32 rounds by this part of a number.
constexpr double f32_rounding = 0x1p-24;

/// The eigenvalue, or what counts as it. The values rise.
KOKKOS_FUNCTION double counted(const double* values, Index n, Index k) {
  const double least = f32_rounding * values[n - 1];
  double v = values[k];
  if (v < least) v = least;
  return v < 0 ? 0 : v;
}

struct PrepareRoots {
  MatrixState* states;
  const ops::StepParams* step_params;
  Index delay;
  double decay, epsilon;

  KOKKOS_FUNCTION void operator()(Index i) const {
    const auto t = static_cast<double>(static_cast<Index>(step_params->step) + 1 - delay);
    states[i] = {decay < 1 ? 1 / (1 - Kokkos::pow(decay, t)) : 1, epsilon, 0, 0, 0, 0};
  }
};

/// Terms of the sum of diagonals.
struct Diagonals {
  const float* blocks;
  Index size;

  KOKKOS_FUNCTION double operator()(Index i) const {
    return static_cast<double>(blocks[(i / size * size + i % size) * size + i % size]);
  }
};

/// One item. The loop of is_zero() ends at once but for a matrix of zeros.
struct PrepareInverse {
  MatrixState* state;
  InverseSettings settings;
  const float* src;
  Index n, stride;

  KOKKOS_FUNCTION void operator()(Index) const {
    const double mean = *settings.mine / static_cast<double>(settings.my_rows),
                 mean_of_other = *settings.other / static_cast<double>(settings.other_rows);
    MatrixState s{1, 0, 0, 0, 0, 0};
    s.is_empty = mean == 0 || mean_of_other == 0 || (settings.damping == 0 && is_zero()) ? 1 : 0;
    if (s.is_empty == 0 && !settings.eigen) {
      s.shift = Kokkos::sqrt(static_cast<double>(settings.damping) * mean / mean_of_other);
      if (!Kokkos::isfinite(s.shift)) s.shift = 0, s.is_bad = 1;
    }
    *state = s;
  }
  KOKKOS_FUNCTION bool is_zero() const {
    for (Index i = 0; i < n; ++i)
      if (src[i * (stride + 1)] != 0) return false;
    return true;
  }
};

struct TakeTriangle {
  const float* src;
  Index n, stride;
  MatrixState* state;
  bool shifts;
  double* a;

  KOKKOS_FUNCTION void operator()(Index k) const {
    const Index i = k / n, j = k % n;
    double v = i == j ? 1 : 0;
    if (state->is_empty == 0) {
      v = state->scale * static_cast<double>(i > j ? src[i * stride + j] : src[j * stride + i]);
      if (!Kokkos::isfinite(v)) {
        v = 0;
        Kokkos::atomic_store(&state->is_bad, 1);
      }
      if (shifts && i == j) v += state->shift;
    }
    a[k] = v;
  }
};

struct ScaleVectors {
  Index n;
  double power;
  const MatrixState* state;
  const double* values;
  double* a;

  KOKKOS_FUNCTION void operator()(Index k) const {
    a[k] *= Kokkos::pow(counted(values, n, k / n) + state->shift, power);
  }
};

struct WriteSymmetric {
  const double* c;
  const MatrixState* state;
  bool of_inverse;
  float* dst;
  Index n, stride;

  KOKKOS_FUNCTION void operator()(Index k) const {
    if (state->is_empty != 0 || (of_inverse && state->has_no_inverse())) return;
    const Index i = k / n, j = k % n;
    const bool failed = state->is_bad != 0 || state->info != 0;
    dst[i * stride + j] =
        failed ? Kokkos::Experimental::quiet_NaN_v<float> : static_cast<float>(i > j ? c[j * n + i] : c[i * n + j]);
  }
};

struct WriteVectors {
  const double *vectors, *values;
  const MatrixState* state;
  float* dst;
  Index n, stride;

  KOKKOS_FUNCTION void operator()(Index k) const {
    if (state->is_empty != 0) return;
    const Index row = k / n, i = k % n;
    const bool failed = state->is_bad != 0 || state->info != 0;
    dst[row * stride + i] = failed ? Kokkos::Experimental::quiet_NaN_v<float>
                                   : static_cast<float>(row < n ? vectors[k] : counted(values, n, i));
  }
};

}  // namespace

void prepare_roots(MatrixState* states, const ops::InverseRootsDesc& d, const ops::StepParams* step_params) {
  kokkos::launch("keelson::inverse_roots::prepare", std::ssize(d.matrices),
                 PrepareRoots{states, step_params, d.delay, d.decay, d.epsilon});
}

std::int64_t diagonal_sum_scratch(const ops::DiagonalBlocks& blocks) {
  return kokkos::parallel_sum_scratch(blocks.count * blocks.size);
}

void diagonal_sum(const float* blocks, const ops::DiagonalBlocks& sizes, double* scratch, double* result) {
  kokkos::parallel_sum("keelson::factor_inverses::diagonal_sum", Diagonals{blocks, sizes.size},
                       sizes.count * sizes.size, scratch, result);
}

void prepare_inverse(MatrixState* state, const InverseSettings& settings, const SymmetricMatrix& m) {
  kokkos::launch("keelson::factor_inverses::prepare", 1, PrepareInverse{state, settings, m.src, m.n, m.stride});
}

void take_triangle(const SymmetricMatrix& m, MatrixState* state, bool shifts, double* a) {
  kokkos::launch("keelson::symmetric::take", m.n * m.n, TakeTriangle{m.src, m.n, m.stride, state, shifts, a});
}

void scale_vectors(std::int64_t n, int root, const MatrixState* state, const double* values, double* a) {
  kokkos::launch("keelson::symmetric::scale", n * n, ScaleVectors{n, -0.5 / root, state, values, a});
}

void write_symmetric(const SymmetricMatrix& m, const double* c, const MatrixState* state, bool of_inverse) {
  kokkos::launch("keelson::symmetric::write", m.n * m.n, WriteSymmetric{c, state, of_inverse, m.dst, m.n, m.stride});
}

void write_vectors(const SymmetricMatrix& m, const double* vectors, const double* values, const MatrixState* state) {
  kokkos::launch("keelson::symmetric::write_vectors", (m.n + 1) * m.n,
                 WriteVectors{vectors, values, state, m.dst, m.n, m.stride});
}

}  // namespace keelson::cuda
