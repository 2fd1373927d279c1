#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace keelson::universe {

/// Allocates on 64-byte boundaries, so that every grid may be given to the same FFT plan.
template <class T>
struct GridAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  GridAllocator() = default;
  template <class U>
  GridAllocator(const GridAllocator<U>&) {}  // NOLINT(google-explicit-constructor): allocators convert
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  template <class U>
  bool operator==(const GridAllocator<U>&) const {
    return true;
  }
};

/// n^3 real values, [x][y][z] with z fastest.
using RealGrid = std::vector<float, GridAllocator<float>>;

/// n * n * (n/2 + 1) Fourier coefficients of a real grid, [x][y][z] with z fastest: the coefficients with negative z
/// frequency are the complex conjugates of those kept. Frequencies 0, 1, ..., -2, -1 along x and y.
using ModeGrid = std::vector<std::complex<float>, GridAllocator<std::complex<float>>>;

/// Fourier transforms of cubic periodic grids (FFTW, one thread, single precision). The plans are made once, by
/// FFTW_ESTIMATE, so that the same program gives the same bits in every run. One object may be used by one thread at a
/// time.
class Fft3d {
 public:
  /// Throws InputError for n < 2.
  explicit Fft3d(int n);
  ~Fft3d();
  Fft3d(Fft3d&&) noexcept;
  Fft3d& operator=(Fft3d&&) noexcept;

  int n() const;
  std::size_t cells() const;  ///< n^3
  std::size_t modes() const;  ///< n * n * (n/2 + 1)

  /// modes = sum over cells of real exp(-i k.x): not normalised. `real` is kept.
  void forward(const RealGrid& real, ModeGrid& modes) const;
  /// real = sum over modes of modes exp(i k.x): not normalised. Overwrites `modes`.
  void inverse(ModeGrid& modes, RealGrid& real) const;

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

/// Integer frequency of grid index i: 0, 1, ..., n/2, ..., -1.
constexpr int frequency(int i, int n) { return i <= n / 2 ? i : i - n; }

/// Largest frequency of modes that carry power here. The Nyquist planes of even grids are left empty: a displacement
/// cannot be represented there.
constexpr int largest_frequency(int n) { return (n - 1) / 2; }

}  // namespace keelson::universe
