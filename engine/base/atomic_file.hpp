#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace keelson {

/// The kind of file that an AtomicFile may replace. No target replaces an input of the command (protect_input()) or a
/// folder.
enum class Target : std::uint8_t {
  own,   ///< a file whose name the program chooses: no file of HDF5, no device, no pipe
  hdf5,  ///< the same, for a program that writes HDF5: may replace a file of HDF5
  /// A file that the user names: no HDF5 file, and no file in a folder `checkpoints`. A device or a pipe is not
  /// replaced, but written to.
  output,
};

/// Replaces a file in one step: write to temporary(), then call commit(), which syncs this file, renames it and syncs
/// the folder. If the machine stops, either the old content or the new content is there. Without commit() the
/// destructor removes the temporary file.
///
/// If the path is a symbolic link, the target of the link is replaced, and the link stays. If the path is a device or a
/// pipe, the temporary file is in TMPDIR, and commit() copies it into the device or pipe; a pipe makes commit() wait
/// for a reader.
class AtomicFile {
 public:
  /// Creates no file yet, and chooses the temporary name. Throws InputError for a path that `target` must not replace.
  explicit AtomicFile(const std::filesystem::path& path, Target target = Target::own);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  ///< where to write the content
  bool special() const { return special_; }                              ///< whether the path is a device or a pipe
  void commit();                                                         ///< throws Error with the system's reason
  /// As commit(), but without syncing: if the machine stops, the content may be lost. For copies, which can be made
  /// again. The path is no device or pipe.
  void commit_unsynced();

 private:
  void copy_out() const;

  std::filesystem::path given_, path_, temporary_;  ///< path_: the file to replace, after following symbolic links
  bool special_ = false, done_ = false;
};

/// Replaces `path` by a file with the content `text`. Throws Error; the old file is then unchanged. Throws InputError
/// as AtomicFile does.
void write_atomically(const std::filesystem::path& path, std::string_view text, Target target = Target::own);

/// Makes `link` another name of `file`, replacing an old file in one step; copies if the file system has no hard links.
void link_atomically(const std::filesystem::path& file, const std::filesystem::path& link);

/// Says that the command reads this file. From now on no AtomicFile of this process replaces the file, under any name.
/// Ignores a path that is not a regular file. May be called by any thread.
void protect_input(const std::filesystem::path& file);

/// Removes temporary files in `folder` whose processes, on this machine, have ended.
void remove_temporaries(const std::filesystem::path& folder);

/// For messages about failed writing: ": No space left on device, 71.3 MB free in runs/a". Contains the free space only
/// if the reason (errno) concerns space.
std::string reason_of_writing(int why, const std::filesystem::path& folder);

}  // namespace keelson
