#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace keelson {

/// A file that replaces another in one step: write to temporary(), then commit(), which syncs it, renames it and syncs
/// the folder. Whenever the machine stops, either the old content or the new one is there. Without commit() the
/// temporary file is removed.
class AtomicFile {
 public:
  /// Makes no file yet; names the temporary one.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  ///< in the same folder
  void commit();                                                         ///< throws Error with the system's reason

 private:
  std::filesystem::path path_, temporary_;
  bool done_ = false;
};

/// Replaces `path` by a file that holds `text`. Throws Error; the old file is then untouched.
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes `link` another name of `file`, replacing what was there in one step; copies where the file system has no hard
/// links.
void link_atomically(const std::filesystem::path& file, const std::filesystem::path& link);

/// Removes what processes of this machine that have ended left of atomic files in `folder`.
void remove_temporaries(const std::filesystem::path& folder);

/// For messages about failed writing: ": No space left on device, 71.3 MB free in runs/a", with the free space only
/// where the reason (errno) has to do with it.
std::string reason_of_writing(int why, const std::filesystem::path& folder);

}  // namespace keelson
