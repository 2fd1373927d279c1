#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "engine/data/hdf5/detail/hdf5_links.hpp"

namespace keelson::hdf5 {

using detail::Handle;
using detail::innermost_reason;
using detail::Lock;
using detail::place;

namespace {

/// Whether there is an attribute. Refuses a damaged one: to treat it as absent would change the meaning of the file.
bool attribute_exists(hid_t object, const std::string& where, const std::string& name) {
  const htri_t found = H5Aexists(object, name.c_str());
  if (found < 0)
    refuse("{}: its attributes cannot be read ({}). Is the copy complete? Fetch or make it again", where,
           innermost_reason());
  return found > 0;
}

Handle open_attribute(hid_t object, const std::string& where, const std::string& name) {
  if (!attribute_exists(object, where, name))
    refuse("{}: lacks the attribute '{}'. Was the file made by another program or version?", where, name);
  Handle a(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!a.ok()) refuse("{}: the attribute '{}' cannot be opened ({})", where, name, innermost_reason());
  return a;
}

Handle space_of(std::int64_t n, bool scalar) {
  const auto extent = static_cast<hsize_t>(n);
  return Handle(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr), H5Sclose);
}

void replace_attribute(hid_t object, const std::string& where, const std::string& name, hid_t type, hid_t space,
                       const void* src) {
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const Handle a(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!a.ok() || H5Awrite(a, type, src) < 0)
    fail("{}: the attribute '{}' cannot be written ({})", where, name, innermost_reason());
}

}  // namespace

std::int64_t File::open_object(const std::string& name) const {
  const hid_t object = H5Oopen(id_, name.c_str(), access());
  if (object < 0 && links_) links_->explain();
  if (object < 0) refuse("{}: has no '{}'. Expected a dataset or group of this name", path_, name);
  return object;
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  const Lock lock;
  return attribute_exists(Handle(open_object(object), H5Oclose), place(path_, object), name);
}

void File::set_numbers(const std::string& object, const std::string& name, Type type, const void* src, std::int64_t n,
                       bool scalar) {
  const Lock lock;
  replace_attribute(Handle(open_object(object), H5Oclose), place(path_, object), name, detail::native(type),
                    space_of(n, scalar), src);
}

void File::set_texts(const std::string& object, const std::string& name, std::span<const std::string_view> texts,
                     bool scalar) {
  std::vector<std::string> copies(texts.begin(), texts.end());
  std::vector<const char*> pointers;
  for (const auto& c : copies) pointers.push_back(c.c_str());
  const Lock lock;
  replace_attribute(Handle(open_object(object), H5Oclose), place(path_, object), name, detail::utf8_type(),
                    space_of(static_cast<std::int64_t>(texts.size()), scalar), pointers.data());
}

void File::set_attribute(const std::string& object, const std::string& name, std::string_view text) {
  set_texts(object, name, std::span(&text, 1), true);
}

void File::set_attribute(const std::string& object, const std::string& name, const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  set_texts(object, name, views, false);
}

std::int64_t File::attribute_elements(const std::string& object, const std::string& name) const {
  const Lock lock;
  const Handle o(open_object(object), H5Oclose);
  const Handle a = open_attribute(o, place(path_, object), name);
  const Handle space(H5Aget_space(a), H5Sclose);
  return H5Sget_simple_extent_npoints(space);
}

void File::get_numbers(const std::string& object, const std::string& name, Type type, void* dst) const {
  const Lock lock;
  const Handle o(open_object(object), H5Oclose);
  const Handle a = open_attribute(o, place(path_, object), name);
  const Handle stored(H5Aget_type(a), H5Tclose);
  const H5T_class_t kind = H5Tget_class(stored);
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || H5Aread(a, detail::native(type), dst) < 0) {
    refuse("{}: the attribute '{}' holds {}. Expected numbers ({})", place(path_, object), name,
           detail::describe(stored), to_string(type));
  }
}

void File::require_single(const std::string& object, const std::string& name, std::size_t found) const {
  if (found != 1) refuse("{}: the attribute '{}' has {} values. Expected one", place(path_, object), name, found);
}

std::vector<std::string> File::texts_attribute(const std::string& object, const std::string& name) const {
  const Lock lock;
  const Handle o(open_object(object), H5Oclose);
  const Handle a = open_attribute(o, place(path_, object), name);
  const Handle stored(H5Aget_type(a), H5Tclose), space(H5Aget_space(a), H5Sclose);
  if (H5Tget_class(stored) != H5T_STRING)
    refuse("{}: the attribute '{}' holds {}. Expected text", place(path_, object), name, detail::describe(stored));
  const auto n = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space));
  std::vector<std::string> texts;
  const auto refuse_reading = [&] {
    refuse("{}: the attribute '{}' cannot be read ({})", place(path_, object), name, innermost_reason());
  };
  if (H5Tis_variable_str(stored) > 0) {
    std::vector<char*> pointers(n, nullptr);
    const Handle type(H5Tcopy(stored), H5Tclose);
    if (H5Aread(a, type, pointers.data()) < 0) refuse_reading();
    for (const char* p : pointers) texts.emplace_back(p != nullptr ? p : "");
    for (char* p : pointers) H5free_memory(p);
  } else {
    const std::size_t length = H5Tget_size(stored);
    std::vector<char> bytes(n * length);
    if (H5Aread(a, stored, bytes.data()) < 0) refuse_reading();
    const bool padded = H5Tget_strpad(stored) == H5T_STR_SPACEPAD;
    for (std::size_t i = 0; i < n; ++i) {
      const char* begin = bytes.data() + i * length;
      std::string text(begin, strnlen(begin, length));
      if (padded) text.erase(text.find_last_not_of(' ') + 1);
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

std::string File::text_attribute(const std::string& object, const std::string& name) const {
  auto texts = texts_attribute(object, name);
  require_single(object, name, texts.size());
  return std::move(texts[0]);
}

}  // namespace keelson::hdf5
