#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "backends/kokkos/common/kernel.hpp"
#include "backends/lapack/symmetric.hpp"

namespace keelson::kokkos {

/// Symmetric matrices that the threads of a CPU share out, if LAPACK is for several threads. LAPACK works in one
/// thread, so results do not depend on the number of threads.
class MatrixShares {
 public:
  /// `rows`: of each matrix. The largest matrix first, each goes to the thread with the least work. `scratch_doubles`:
  /// numbers that a matrix of so many rows needs.
  explicit MatrixShares(const std::vector<std::int64_t>& rows,
                        std::size_t (*scratch_doubles)(std::int64_t) = lapack::scratch_doubles) {
    const int most = lapack::takes_several_threads() ? current_instance().concurrency() : 1;
    const auto threads = static_cast<std::size_t>(std::max(1, most));
    shares_.resize(std::clamp<std::size_t>(rows.size(), 1, threads));
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return rows[i]; });
    for (const std::size_t i : order) {
      const auto share = std::ranges::min_element(shares_, {}, &Share::work);
      const auto n = static_cast<double>(rows[i]);
      share->matrices.push_back(i);
      share->work += n * n * n;
      share->scratch = std::max(share->scratch, align64(scratch_doubles(rows[i]) * sizeof(double)));
    }
    for (std::size_t i = 1; i < shares_.size(); ++i)
      shares_[i].first_byte = shares_[i - 1].first_byte + shares_[i - 1].scratch;
  }

  std::size_t count() const { return shares_.size(); }  ///< shares: threads that have work
  /// Of run().
  std::size_t scratch_bytes() const { return shares_.back().first_byte + shares_.back().scratch; }

  /// Calls work(number of the matrix, its scratch memory for LAPACK) for each matrix.
  template <class Work>
  void run(const char* label, void* scratch, const Work& work) const {
    const lapack::OneThread one_thread;
    launch(label, std::ssize(shares_),
           [this, scratch, &work](Index share) { run_share(static_cast<std::size_t>(share), scratch, work); });
  }
  /// Those of one share. The calling thread has a lapack::OneThread.
  template <class Work>
  void run_share(std::size_t share, void* scratch, const Work& work) const {
    const Share& s = shares_[share];
    auto* const memory = reinterpret_cast<double*>(static_cast<std::byte*>(scratch) + s.first_byte);
    for (const std::size_t i : s.matrices) work(i, memory);
  }

 private:
  /// What one thread does.
  struct Share {
    std::vector<std::size_t> matrices;
    double work = 0;
    std::size_t scratch = 0, first_byte = 0;  ///< of the scratch memory
  };
  std::vector<Share> shares_;
};

}  // namespace keelson::kokkos
