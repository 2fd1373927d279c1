#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "backends/kokkos/common/kernel.hpp"

/// Kernels of independent work in few launches. A launch costs a GPU some microseconds, which is more than the work on
/// a small parameter takes, and an optimizer has several kernels for each of hundreds of parameters.
namespace keelson::kokkos {

/// Functors of one type as one kernel. The functors are arguments of the kernel, which have at most 4 KiB.
template <class Functor>
class Merged {
 public:
  static constexpr int capacity =
      std::clamp<int>(3400 / static_cast<int>(sizeof(Functor) + sizeof(Index)), 1, 64);  ///< number of functors
  static_assert(std::is_trivially_copyable_v<Functor>, "functors are copied as bytes");

  /// Functor number `count` is called for so many items.
  void add(const Functor& functor, Index items) {
    std::memcpy(functors_ + static_cast<std::size_t>(count_) * sizeof(Functor), &functor, sizeof(Functor));
    ends_[count_] = this->items() + items;
    ++count_;
  }
  int count() const { return count_; }
  Index items() const { return count_ > 0 ? ends_[count_ - 1] : 0; }

  KOKKOS_FUNCTION void operator()(Index item) const {
    int low = 0, high = count_ - 1;  // the functor is the first whose end lies behind the item
    while (low < high) {
      const int middle = (low + high) / 2;
      if (item < ends_[middle])
        high = middle;
      else
        low = middle + 1;
    }
    const auto* functors = reinterpret_cast<const Functor*>(functors_);
    functors[low](low > 0 ? item - ends_[low - 1] : item);
  }

 private:
  alignas(Functor) unsigned char functors_[capacity * sizeof(Functor)];
  Index ends_[capacity];
  int count_ = 0;
};

/// Launches of one kind that wait for each other's company.
class PendingLaunches {
 public:
  virtual ~PendingLaunches() = default;
  virtual void launch_all() = 0;
  virtual void forget() = 0;
};

/// Collects the launches of independent pieces of work, each of which launches kernels that depend on each other, and
/// launches the first kernels of all pieces, then the second ones, and so on. Each host thread has its own.
class MergedLaunches {
 public:
  /// The collection that launch_merging() adds to; null: kernels are launched at once.
  static MergedLaunches* active();
  /// As run_merged().
  static void run(std::size_t count, const std::function<void(std::size_t)>& piece);

  template <class Functor>
  void add(const char* label, Index items, const Functor& functor) {
    if (levels_.size() <= level_) levels_.emplace_back();
    auto& level = levels_[level_++];
    const auto same = [&](const Kind& k) { return k.type == &Launches<Functor>::type; };
    auto found = std::find_if(level.begin(), level.end(), same);
    if (found == level.end())
      found = level.insert(level.end(), {&Launches<Functor>::type, std::make_unique<Launches<Functor>>(label)});
    static_cast<Launches<Functor>&>(*found->launches).waiting.push_back({functor, items});
  }

 private:
  template <class Functor>
  class Launches : public PendingLaunches {
   public:
    static constexpr char type = 0;  ///< its address is the type's
    struct One {
      Functor functor;
      Index items;
    };
    explicit Launches(const char* label) : label_(label) {}
    void launch_all() override {
      Merged<Functor> merged;
      for (const One& one : waiting) {
        if (one.items == 0) continue;
        if (merged.count() == Merged<Functor>::capacity) {
          launch(label_, merged.items(), merged);
          merged = {};
        }
        merged.add(one.functor, one.items);
      }
      if (merged.count() > 0) launch(label_, merged.items(), merged);
    }
    void forget() override { waiting.clear(); }
    std::vector<One> waiting;

   private:
    const char* label_;
  };
  struct Kind {
    const char* type;
    std::unique_ptr<PendingLaunches> launches;
  };

  void forget();

  std::vector<std::vector<Kind>> levels_;  ///< by the number of the launch within its piece; kept for the next run
  std::size_t level_ = 0;                  ///< of the next launch of the present piece
};

/// As launch(). Within MergedLaunches::run() the kernel is launched later, together with others of its type. `label`
/// must be a string literal.
template <class Functor>
void launch_merging(const char* label, Index items, const Functor& functor) {
  if constexpr (!runs_on_host)
    if (MergedLaunches* merged = MergedLaunches::active()) return merged->add(label, items, functor);
  launch(label, items, functor);
}

}  // namespace keelson::kokkos
