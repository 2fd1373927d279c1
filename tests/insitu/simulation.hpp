#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "insitu/keelson/insitu.h"

namespace keelson::testing {

inline int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of_comm(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

/// A folder of this job, which all ranks see; main() removes it.
std::string job_folder();

/// A session that closes itself.
class OpenSession {
 public:
  explicit OpenSession(MPI_Comm comm = MPI_COMM_WORLD, const std::string& log = "") {
    EXPECT_EQ(keelson_insitu_open(comm, log.empty() ? nullptr : log.c_str(), &session_), KEELSON_INSITU_OK)
        << keelson_insitu_error(nullptr);
  }
  ~OpenSession() { EXPECT_EQ(keelson_insitu_close(&session_), KEELSON_INSITU_OK) << keelson_insitu_error(nullptr); }
  OpenSession(const OpenSession&) = delete;
  // NOLINTNEXTLINE(google-explicit-constructor): it stands in for the session
  operator keelson_insitu*() const { return session_; }

 private:
  keelson_insitu* session_ = nullptr;
};

/// A call that has to succeed.
#define KEELSON_WORKS(session, call) EXPECT_EQ(call, KEELSON_INSITU_OK) << keelson_insitu_error(session)

/// A call that has to be refused with a message that has these words.
inline void expect_refused(int status, keelson_insitu* session, const std::vector<std::string>& words) {
  EXPECT_EQ(status, KEELSON_INSITU_BAD_INPUT);
  const std::string text = keelson_insitu_error(session);
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in: " << text;
}

/// How an array lies in the host's memory.
struct Arrangement {
  bool is_double = false;
  std::int64_t ghosts = 0;
  bool first_fastest = false;  ///< as Fortran has it
  std::int64_t spread = 1;     ///< elements from a cell to the next: as in an array of structures
  bool on_host = false;
};

/// A rank's part of a field that a function of the cell's place in the whole field gives. The parts are slabs along the
/// first dimension.
class Part {
 public:
  using Function = std::function<double(std::int64_t, std::int64_t, std::int64_t)>;

  Part(MPI_Comm comm, std::string name, std::vector<std::int64_t> global, const Arrangement& a, const Function& f)
      : name_(std::move(name)), a_(a), global_(global), extents_(global), offset_(global.size(), 0) {
    const int size = size_of_comm(comm), rank = rank_of(comm);
    offset_[0] = global[0] * rank / size;
    extents_[0] = global[0] * (rank + 1) / size - offset_[0];
    const auto n = global.size();
    strides_.resize(n);
    std::int64_t stride = a.spread;
    for (std::size_t i = 0; i < n; ++i) {
      const auto d = a.first_fastest ? i : n - 1 - i;
      strides_[d] = stride;
      stride *= extents_[d] + 2 * a.ghosts;
    }
    memory_.assign(static_cast<std::size_t>(stride) * (a.is_double ? 2 : 1), 0.0f);
    fill(f);
  }

  /// All cells, ghost cells too, which repeat the outermost cells of the whole field where there are none behind.
  void fill(const Function& f) {
    each(a_.ghosts, [&](const std::array<std::int64_t, 3>& at) {
      std::array<std::int64_t, 3> place{};
      for (std::size_t d = 0; d < global_.size(); ++d)
        place[d] = std::min(std::max<std::int64_t>(at[d] + offset_[d], 0), global_[d] - 1);
      set(at, f(place[0], place[1], place[2]));
    });
  }

  keelson_insitu_field_desc desc() {
    keelson_insitu_field_desc d{};
    d.name = name_.c_str();
    d.data = memory_.data();
    d.dtype = a_.is_double ? KEELSON_INSITU_DOUBLE : KEELSON_INSITU_FLOAT;
    d.memory = a_.on_host ? KEELSON_INSITU_HOST : KEELSON_INSITU_DEVICE;
    d.ndims = static_cast<int>(global_.size());
    for (std::size_t i = 0; i < global_.size(); ++i) {
      d.extents[i] = extents_[i];
      d.strides[i] = strides_[i];
      d.ghosts[i] = a_.ghosts;
      d.global[i] = global_[i];
      d.offset[i] = offset_[i];
    }
    return d;
  }

  /// The interior in row-major order.
  std::vector<double> interior() const {
    std::vector<double> values;
    each(0, [&](const std::array<std::int64_t, 3>& at) { values.push_back(get(at)); });
    return values;
  }
  /// All elements of the array that are no interior cell.
  std::vector<float> rest() const {
    auto copy = *this;
    each(0, [&](const std::array<std::int64_t, 3>& at) { copy.set(at, 0); });
    return copy.memory_;
  }
  void* data() { return memory_.data(); }
  const std::vector<std::int64_t>& offset() const { return offset_; }

 private:
  template <class Visit>
  void each(std::int64_t g, const Visit& visit) const {
    const std::int64_t last = global_.size() > 2 ? extents_[2] + g : 1;
    for (std::int64_t i = -g; i < extents_[0] + g; ++i)
      for (std::int64_t j = -g; j < extents_[1] + g; ++j)
        for (std::int64_t k = global_.size() > 2 ? -g : 0; k < last; ++k) visit(std::array<std::int64_t, 3>{i, j, k});
  }
  std::size_t place(const std::array<std::int64_t, 3>& at) const {
    std::int64_t i = 0;
    for (std::size_t d = 0; d < global_.size(); ++d) i += (at[d] + a_.ghosts) * strides_[d];
    return static_cast<std::size_t>(i);
  }
  void set(const std::array<std::int64_t, 3>& at, double v) {
    if (a_.is_double)
      reinterpret_cast<double*>(memory_.data())[place(at)] = v;
    else
      memory_[place(at)] = static_cast<float>(v);
  }
  double get(const std::array<std::int64_t, 3>& at) const {
    return a_.is_double ? reinterpret_cast<const double*>(memory_.data())[place(at)] : memory_[place(at)];
  }

  std::string name_;
  Arrangement a_;
  std::vector<std::int64_t> global_, extents_, offset_, strides_;
  std::vector<float> memory_;
};

/// A smooth field that is different everywhere.
inline double wave(std::int64_t i, std::int64_t j, std::int64_t k) {
  return std::sin(0.3 * static_cast<double>(i)) * std::cos(0.2 * static_cast<double>(j)) +
         0.1 * std::sin(0.5 * static_cast<double>(k) + 0.05 * static_cast<double>(i));
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace keelson::testing
