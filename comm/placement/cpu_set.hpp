#pragma once

#include <sched.h>

#include <new>
#include <vector>

namespace keelson::comm::detail {

/// A set of any number of CPUs, for system calls.
class CpuSet {
 public:
  explicit CpuSet(int cpus) : cpus_(cpus), set_(CPU_ALLOC(static_cast<std::size_t>(cpus))) {
    if (set_ == nullptr) throw std::bad_alloc();
    CPU_ZERO_S(bytes(), set_);
  }
  ~CpuSet() { CPU_FREE(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;

  std::size_t bytes() const { return CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus_)); }
  cpu_set_t* get() { return set_; }
  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes(), set_); }
  std::vector<int> list() const {
    std::vector<int> cpus;
    for (int cpu = 0; cpu < cpus_; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes(), set_)) cpus.push_back(cpu);
    return cpus;
  }

 private:
  int cpus_;
  cpu_set_t* set_;
};

}  // namespace keelson::comm::detail
