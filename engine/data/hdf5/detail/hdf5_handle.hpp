#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "engine/data/hdf5/hdf5.hpp"

/// Parts that hdf5*.cpp share: the lock, handles that close themselves, types, and the reason for a failure.
namespace keelson::hdf5::detail {

static_assert(sizeof(hid_t) == sizeof(std::int64_t), "HDF5 1.10 or newer is needed");

/// Holds HDF5's lock, and prevents HDF5 from printing its error stack. The destructor restores the host program's
/// setting.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> guard_;
  H5E_auto2_t print_ = nullptr;
  void* print_to_ = nullptr;
};

class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  bool ok() const { return id_ >= 0; }
  void swap(Handle& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): used like the identifier in calls of the C library
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

hid_t native(Type type);           ///< the type in memory; an immutable identifier, which must not be closed
Handle utf8_type();                ///< type of a text of any length
Type classify(hid_t type);         ///< the Type of a file's type
std::string describe(hid_t type);  ///< "big-endian int16"
std::string innermost_reason();    ///< why the last call failed, from HDF5's error stack
Dims extents(hid_t space);
Dims chunk_shape(hid_t creation);   ///< of a data set with these properties; empty: no chunks
std::string file_of(hid_t object);  ///< the file in which an object lies

/// The name of a file's object in messages: "data/a.h5: '/x'".
std::string place(const std::string& path, const std::string& object);
bool exists(hid_t file, const std::string& object, hid_t access);

}  // namespace keelson::hdf5::detail
