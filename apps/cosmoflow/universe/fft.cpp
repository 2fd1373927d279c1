#include "apps/cosmoflow/universe/fft.hpp"

#include <fftw3.h>

#include <mutex>

#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

std::mutex& planner() {  // FFTW's planner is not thread-safe
  static std::mutex m;
  return m;
}

fftwf_complex* fftw(std::complex<float>* p) { return reinterpret_cast<fftwf_complex*>(p); }

}  // namespace

struct Fft3d::Plans {
  int n;
  fftwf_plan forward = nullptr, inverse = nullptr;

  explicit Plans(int size) : n(size) {
    RealGrid real(static_cast<std::size_t>(n) * n * n);
    ModeGrid modes(static_cast<std::size_t>(n) * n * (n / 2 + 1));
    const std::lock_guard lock(planner());
    forward = fftwf_plan_dft_r2c_3d(n, n, n, real.data(), fftw(modes.data()), FFTW_ESTIMATE | FFTW_PRESERVE_INPUT);
    inverse = fftwf_plan_dft_c2r_3d(n, n, n, fftw(modes.data()), real.data(), FFTW_ESTIMATE);
  }
  ~Plans() {
    const std::lock_guard lock(planner());
    if (forward) fftwf_destroy_plan(forward);
    if (inverse) fftwf_destroy_plan(inverse);
  }
};

Fft3d::Fft3d(int n) {
  if (n < 2) refuse("grid of {} cells per side: expected at least 2", n);
  plans_ = std::make_unique<Plans>(n);
  if (!plans_->forward || !plans_->inverse) fail("FFTW made no plan for a grid of {}^3", n);
}
Fft3d::~Fft3d() = default;
Fft3d::Fft3d(Fft3d&&) noexcept = default;
Fft3d& Fft3d::operator=(Fft3d&&) noexcept = default;

int Fft3d::n() const { return plans_->n; }
std::size_t Fft3d::cells() const { return static_cast<std::size_t>(n()) * n() * n(); }
std::size_t Fft3d::modes() const { return static_cast<std::size_t>(n()) * n() * (n() / 2 + 1); }

void Fft3d::forward(const RealGrid& real, ModeGrid& modes) const {
  KEELSON_EXPECT(real.size() == cells() && modes.size() == this->modes());
  fftwf_execute_dft_r2c(plans_->forward, const_cast<float*>(real.data()), fftw(modes.data()));
}

void Fft3d::inverse(ModeGrid& modes, RealGrid& real) const {
  KEELSON_EXPECT(real.size() == cells() && modes.size() == this->modes());
  fftwf_execute_dft_c2r(plans_->inverse, fftw(modes.data()), real.data());
}

}  // namespace keelson::universe
