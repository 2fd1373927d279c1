// LAPACK's work, which builds for GPUs do not have.
#ifndef KEELSON_HAVE_CUDA

#include "backends/kokkos/optim/background_matrices.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <cstring>
#include <utility>

#include "engine/base/background_thread.hpp"

namespace keelson::kokkos {

namespace {

/// The CPUs of all compute threads: each may be bound to one. Empty: not known.
std::vector<int> cpus_of_threads() {
  std::vector<int> cpus;
#ifdef __linux__
  std::vector<cpu_set_t> sets(static_cast<std::size_t>(current_instance().concurrency()));
  for (cpu_set_t& set : sets) CPU_ZERO(&set);
  cpu_set_t* const of_thread = sets.data();
  launch("keelson::cpus", std::ssize(sets),
         [of_thread](Index i) { sched_getaffinity(0, sizeof *of_thread, of_thread + i); });
  fence("keelson::cpus");
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (std::ranges::any_of(sets, [cpu](const cpu_set_t& set) { return CPU_ISSET(cpu, &set); })) cpus.push_back(cpu);
#endif
  return cpus;
}

void copy_rows(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
}

/// By bits: a NaN is equal to itself.
bool equal(const MatrixWork& a, const MatrixWork& b) {
  const lapack::Matrix &m = a.matrix, &o = b.matrix;
  if (m.n != o.n || a.epsilon != b.epsilon || a.scale != b.scale || a.root != b.root) return false;
  for (std::int64_t i = 0; i < m.n; ++i)
    if (std::memcmp(m.src + i * m.stride, o.src + i * o.stride, static_cast<std::size_t>(m.n) * sizeof(float)) != 0)
      return false;
  return true;
}

}  // namespace

void BackgroundMatrices::wait() {
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

void BackgroundMatrices::begin(const std::vector<MatrixWork>& works) {
  wait();
  std::size_t count = 0;
  for (const MatrixWork& w : works) count += static_cast<std::size_t>((w.matrix.n + w.dst_rows) * w.matrix.n);
  values_.resize(count);
  scratch_.resize(shares_.scratch_bytes());
  own_ = works;
  float* next = values_.data();
  for (MatrixWork& w : own_) {
    lapack::Matrix& m = w.matrix;
    copy_rows(m.src, m.stride, next, m.n, m.n, m.n);
    m = {next, next + m.n * m.n, m.n, m.n};
    next += (m.n + w.dst_rows) * m.n;
  }
  began_ = true;
  const auto cpus = cpus_of_threads();
  for (std::size_t share = 0; share < shares_.count(); ++share)
    threads_.push_back(start_background_thread(
        "matrices",
        [this, share] {
          const lapack::OneThread one_thread;
          shares_.run_share(share, scratch_.data(), [this](std::size_t i, double* memory) {
            if (own_[i].matrix.n > 0) compute_(own_[i], memory);
          });
        },
        cpus));
}

bool BackgroundMatrices::take(const std::vector<MatrixWork>& works) {
  wait();
  if (!std::exchange(began_, false) || !std::ranges::equal(works, own_, equal)) return false;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const lapack::Matrix &to = works[i].matrix, &from = own_[i].matrix;
    copy_rows(from.dst, from.stride, to.dst, to.stride, works[i].dst_rows, to.n);
  }
  return true;
}

}  // namespace keelson::kokkos

#endif
