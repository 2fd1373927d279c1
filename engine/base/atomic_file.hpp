#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace keelson {

/// What an AtomicFile replaces. None of them replaces an input of the command (protect_input()) or a folder.
enum class Target : std::uint8_t {
  own,   ///< a file whose name the program chooses: no file of HDF5, no device, no pipe
  hdf5,  ///< the same, for a program that writes HDF5: may replace a file of HDF5
  /// A file that the user names: no file of HDF5, and none in a folder `checkpoints`. A device or a pipe stays what it
  /// is and is written to.
  output,
};

/// A file that replaces another in one step: write to temporary(), then commit(), which syncs it, renames it and syncs
/// the folder. Whenever the machine stops, either the old content or the new one is there. Without commit() the
/// temporary file is removed.
///
/// Where the path is a symbolic link, the file that the link leads to is replaced, and the link stays. Where the path
/// is a device or a pipe, commit() copies the temporary file, which then lies in TMPDIR, into it; a pipe makes commit()
/// wait for a reader.
class AtomicFile {
 public:
  /// Makes no file yet; names the temporary one. Throws InputError for what `target` does not replace.
  explicit AtomicFile(const std::filesystem::path& path, Target target = Target::own);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  ///< where to write the content
  bool special() const { return special_; }                              ///< whether the path is a device or a pipe
  void commit();                                                         ///< throws Error with the system's reason

 private:
  void copy_out() const;

  std::filesystem::path given_, path_, temporary_;  ///< path_: what is replaced, behind symbolic links
  bool special_ = false, done_ = false;
};

/// Replaces `path` by a file that holds `text`. Throws Error; the old file is then untouched. Throws InputError as
/// AtomicFile does.
void write_atomically(const std::filesystem::path& path, std::string_view text, Target target = Target::own);

/// Makes `link` another name of `file`, replacing what was there in one step; copies where the file system has no hard
/// links.
void link_atomically(const std::filesystem::path& file, const std::filesystem::path& link);

/// Tells that the command reads this file. From now on no AtomicFile of this process replaces the file, by whatever
/// name. A path that is no regular file is left out. Any thread.
void protect_input(const std::filesystem::path& file);

/// Removes what processes of this machine that have ended left of atomic files in `folder`.
void remove_temporaries(const std::filesystem::path& folder);

/// For messages about failed writing: ": No space left on device, 71.3 MB free in runs/a", with the free space only
/// where the reason (errno) has to do with it.
std::string reason_of_writing(int why, const std::filesystem::path& folder);

}  // namespace keelson
