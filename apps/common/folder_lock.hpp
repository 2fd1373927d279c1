#pragma once

#include <filesystem>
#include <string>

#include "engine/base/process.hpp"

namespace keelson::app {

/// The right to write into a run's folder, which one process at a time has: a file `run.lock` in it that tells who. It
/// works on file systems without locks of their own.
///
/// A lock that another process holds is taken over if that process has provably ended: it ran on this machine and runs
/// no more, or it belonged to an earlier start of this Slurm job, or Slurm says that its job has ended. Otherwise the
/// folder is refused. Should the older process still run after all, on a node that was taken for lost, require() tells
/// it that the folder is no longer its own.
class FolderLock {
 public:
  /// Throws InputError for a folder that another process holds, naming it. Changes nothing.
  static void check(const std::filesystem::path& folder);
  /// Makes the folder if it is not there. Throws InputError as check() does; Error where the file cannot be written.
  explicit FolderLock(std::filesystem::path folder);
  /// Takes the lock over from another process of the same run, which has ended. `token`: that lock's. Throws Error if
  /// the lock has another token.
  FolderLock(std::filesystem::path folder, const std::string& token);
  /// Gives the lock back.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws Error if another process has taken the folder over. Call it before each write.
  void require() const;
  /// What no lock of another run has.
  const std::string& token() const { return token_; }

 private:
  std::filesystem::path file() const;

  std::filesystem::path folder_;
  std::string token_;
  const Process mine_ = Process::current();
};

}  // namespace keelson::app
