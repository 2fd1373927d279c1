#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace keelson::python {

/// A lock that is handed on in the order in which threads have asked for it. The thread that holds it may lock it
/// again. Whoever holds it may need Python's lock (callbacks, functions of data sets), so no thread waits for it while
/// it has Python's lock.
class Turns {
 public:
  void lock();  ///< throws InputError within an Awaited
  void unlock();
  bool mine() const;  ///< whether the calling thread holds it

  /// While one lives, the calling thread does something that the holder of `turns` waits for, so that the thread can
  /// have no turn itself: lock() throws InputError.
  class Awaited {
   public:
    explicit Awaited(const Turns& turns);
    ~Awaited();
    Awaited(const Awaited&) = delete;

   private:
    const Turns* before_;
  };
  void require_not_awaited() const;  ///< throws InputError as lock()

  /// Lets others have their turn while it lives, where the calling thread has locked it once.
  class Pause {
   public:
    explicit Pause(Turns& turns);
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    Turns* turns_;  ///< null: nothing to take back
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0, served_ = 0;  ///< numbers that were given out, and those that have had their turn
  std::thread::id owner_;
  int depth_ = 0;
};

}  // namespace keelson::python
