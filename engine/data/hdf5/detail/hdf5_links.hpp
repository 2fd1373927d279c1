#pragma once

#include <memory>
#include <string>

#include "engine/data/hdf5/detail/hdf5_handle.hpp"

namespace keelson::hdf5::detail {

/// Why `path` cannot be read as data: it does not exist, or is no regular file (opening a pipe would wait for a
/// writer). Empty: it can be read.
std::string why_unreadable(const std::string& path);

/// Decides from where the objects of an open file may come: from the file itself and, through external links and
/// virtual data sets, from regular files in its folder or below. Other targets of links (/etc/passwd, a pipe) are
/// refused.
class LinkPolicy {
 public:
  /// `folder` empty: the folder of the file.
  LinkPolicy(const std::string& path, const std::string& folder);
  ~LinkPolicy();
  LinkPolicy(const LinkPolicy&) = delete;

  /// The property list for every call that takes a link access or data set access list. Valid as long as this object.
  hid_t access() const { return access_; }
  const std::string& folder() const { return folder_; }
  /// Throws InputError if a link was refused since the last call. To be called after HDF5 calls that have failed.
  void explain();
  /// Throws InputError for data that lie outside the folder, or whose sources are missing or were never written.
  /// `where` names the data set; `depth` counts the virtual data sets that lead to it.
  void check_storage(hid_t dataset, const std::string& where, int depth) const;

 private:
  static herr_t on_external_link(const char* parent, const char* group, const char* child, const char* object,
                                 unsigned* flags, hid_t access, void* policy);
  std::string why_outside(const std::string& file) const;
  void check_virtual(hid_t dataset, hid_t creation, const std::string& where, int depth) const;

  std::string folder_;  ///< canonical path
  std::string refused_;
  hid_t access_;
};

/// Throws InputError for a data set whose elements lie in a file that is not HDF5.
void refuse_external_storage(hid_t dataset, const std::string& where);

/// Throws InputError for a data set with elements that were never written, which HDF5 reads as zeros.
void require_written(hid_t dataset, const std::string& where);

/// The shape of a data set in another file, after all checks. The caller holds HDF5's lock.
Dims shape_of_source(const std::string& file, const std::string& folder, const std::string& object, int depth);

}  // namespace keelson::hdf5::detail
