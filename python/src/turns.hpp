#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace keelson::python {

/// A recursive lock that threads get in the order in which they asked for it. The thread that holds this lock may need
/// the GIL (for callbacks and functions of data sets). So no thread may wait for this lock while it holds the GIL.
class Turns {
 public:
  void lock();  ///< throws InputError within an Awaited
  void unlock();
  bool mine() const;  ///< whether the calling thread holds the lock

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
  bool is_awaited() const;           ///< whether the calling thread is within an Awaited of this lock
  void require_not_awaited() const;  ///< throws InputError as lock()

  /// Lets others have their turn while it lives, where the calling thread has locked it once.
  class Pause {
   public:
    explicit Pause(Turns& turns);
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    Turns* turns_;  ///< null: nothing to lock again
  };

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0, served_ = 0;  ///< how many numbers were given out, and how many threads have had their turn
  std::thread::id owner_;
  int depth_ = 0;
};

}  // namespace keelson::python
