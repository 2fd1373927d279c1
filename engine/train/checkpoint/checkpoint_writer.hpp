#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson {

/// Writes the checkpoints of a run while the run goes on: one after the other, in a thread of its own.
class CheckpointWriter {
 public:
  /// Does not touch the file system.
  explicit CheckpointWriter(CheckpointFolder folder) : folder_(std::move(folder)) {}
  ~CheckpointWriter() { wait(); }

  /// Begins to write. Waits until the checkpoint before is written; take() does not return that one any more.
  void start(std::shared_ptr<const CheckpointCopy> copy);

  /// A checkpoint that is on the disk.
  struct Written {
    std::shared_ptr<const CheckpointCopy> copy;  ///< what was written
    std::filesystem::path path;                  ///< of the file
    double seconds = 0;                          ///< that writing took
  };
  /// The checkpoint that was started last, if it is written. Returns each checkpoint once. `wait_for_it`: waits until
  /// the checkpoint is written. Throws Error if it could not be written.
  std::optional<Written> take(bool wait_for_it);
  /// Returns when nothing is being written.
  void wait();
  /// Waits until nothing is being written, and then returns true. Returns false after these seconds if the disk has
  /// taken another part of the checkpoint since the call before. While the disk takes nothing, this does not return.
  bool wait_for(double seconds);
  /// Whether the checkpoint that was started last could not be written. Does not wait.
  bool failed() const { return done_ && error_; }

 private:
  void write();

  CheckpointFolder folder_;
  std::thread thread_;
  Written now_;
  std::exception_ptr error_;       ///< of now_; valid when done_
  std::atomic<bool> done_{true};   ///< now_ has come to its end
  std::mutex mutex_;               ///< of parts_, and of the end of done_
  std::condition_variable moved_;  ///< parts_ or done_
  std::int64_t parts_ = 0;         ///< of all checkpoints, on the disk
  std::int64_t seen_ = 0;          ///< of them, when wait_for() returned last
};

}  // namespace keelson
