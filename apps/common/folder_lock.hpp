#pragma once

#include <filesystem>
#include <string>

#include "engine/base/process.hpp"

namespace keelson::app {

/// The right to write into a run's folder. One process at a time has this right; a file `run.lock` in the folder names
/// the process. Works on file systems without file locks.
///
/// A lock that another process holds is taken over if that process has certainly ended: the process ran on this machine
/// and no longer runs, or it belonged to an earlier start of this Slurm job, or Slurm says that its job has ended.
/// Otherwise the folder is refused. If the older process still runs, e.g. on a node that Slurm had given up, require()
/// throws in that process.
class FolderLock {
 public:
  /// Throws InputError for a folder that another process holds, naming it. Changes nothing.
  static void check(const std::filesystem::path& folder);
  /// Makes the folder if it does not exist. Throws InputError as check() does, and Error if the file cannot be written.
  explicit FolderLock(std::filesystem::path folder);
  /// Takes the lock over from a process of the same run that has ended. `token`: token of that process's lock. Throws
  /// Error if the lock has another token.
  FolderLock(std::filesystem::path folder, const std::string& token);
  /// Removes the lock of a process of the same run that has ended. `token`: token of that process's lock. Does nothing
  /// if the folder has no lock or the lock has another token.
  static void remove(const std::filesystem::path& folder, const std::string& token);
  /// Gives the lock back.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws Error if another process has taken the folder over. Call it before each write.
  void require() const;
  /// Text that differs from the token of every other run's lock.
  const std::string& token() const { return token_; }

 private:
  std::filesystem::path file() const;

  std::filesystem::path folder_;
  std::string token_;
  const Process mine_ = Process::current();
};

}  // namespace keelson::app
