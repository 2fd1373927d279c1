#include "insitu/field.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "insitu/keelson/insitu.h"

namespace keelson::insitu {
namespace {

/// The host's numbers for `ndims` dimensions, as numbers for three dimensions.
template <class T>
Triple aligned(const T (&given)[3], int ndims, std::int64_t missing) {
  Triple t{missing, missing, missing};
  for (int d = 0; d < ndims; ++d) t[axis_of(d, ndims)] = given[d];
  return t;
}

void set_strides(HostField& f, const keelson_insitu_field_desc& desc) {
  bool given = false;
  for (int d = 0; d < desc.ndims; ++d) given = given || desc.strides[d] != 0;
  f.strides = aligned(desc.strides, desc.ndims, 0);
  if (!given) {
    std::int64_t stride = 1;
    for (std::size_t d = 3; d-- > 0;) {
      f.strides[d] = stride;
      stride *= f.extents[d] + 2 * f.ghosts[d];
    }
    return;
  }
  for (int d = 0; d < desc.ndims; ++d)
    if (desc.strides[d] < 1)
      refuse(
          "field '{}': the stride of dimension {} is {}. Expected at least 1 element, or 0 in all dimensions for a "
          "row-major array",
          f.name, d, desc.strides[d]);
}

void check_place(const HostField& f) {
  for (std::size_t d = 0; d < 3; ++d)
    if (f.offset[d] < 0 || f.offset[d] + f.extents[d] > f.global[d])
      refuse(
          "field '{}': its interior of {} cells begins at {} of the whole field of {} in dimension {}. Expected it "
          "within the whole field: check `offset` and `global`",
          f.name, f.extents[d], f.offset[d], f.global[d], static_cast<int>(d) - (3 - f.ndims));
}

}  // namespace

std::int64_t HostField::span() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 3; ++d) last += (extents[d] + 2 * ghosts[d] - 1) * strides[d];
  return last + 1;
}

std::int64_t HostField::origin() const {
  return ghosts[0] * strides[0] + ghosts[1] * strides[1] + ghosts[2] * strides[2];
}

std::string to_string(const Triple& t, int ndims) {
  std::string text;
  for (std::size_t d = axis_of(0, ndims); d < 3; ++d) text += (text.empty() ? "" : "x") + std::to_string(t[d]);
  return text;
}

HostField make_field(const keelson_insitu_field_desc& desc) {
  if (!desc.name || !*desc.name) refuse("a field has no name. Expected a text such as \"density\" in `name`");
  HostField f;
  f.name = desc.name;
  if (f.name.find(' ') != std::string::npos)
    refuse("the field's name '{}' has a space. Expected none: lists of fields are separated by spaces", f.name);
  if (desc.dtype != KEELSON_INSITU_FLOAT && desc.dtype != KEELSON_INSITU_DOUBLE)
    refuse("field '{}': dtype is {}. Expected KEELSON_INSITU_FLOAT ({}) or KEELSON_INSITU_DOUBLE ({})", f.name,
           desc.dtype, static_cast<int>(KEELSON_INSITU_FLOAT), static_cast<int>(KEELSON_INSITU_DOUBLE));
  if (desc.memory != KEELSON_INSITU_DEVICE && desc.memory != KEELSON_INSITU_HOST)
    refuse("field '{}': memory is {}. Expected KEELSON_INSITU_DEVICE or KEELSON_INSITU_HOST", f.name, desc.memory);
  if (desc.ndims != 2 && desc.ndims != 3)
    refuse("field '{}': ndims is {}. Expected 2 or 3: networks have convolutions in two and three dimensions", f.name,
           desc.ndims);
  f.is_double = desc.dtype == KEELSON_INSITU_DOUBLE;
  f.on_host = desc.memory == KEELSON_INSITU_HOST;
  f.ndims = desc.ndims;
  f.data = desc.data;
  bool placed = false;
  for (int d = 0; d < desc.ndims; ++d) {
    if (desc.extents[d] < 1)
      refuse("field '{}': the extent of dimension {} is {}. Expected at least 1 interior cell", f.name, d,
             desc.extents[d]);
    if (desc.ghosts[d] < 0)
      refuse("field '{}': {} ghost cells in dimension {}. Expected 0 or more", f.name, desc.ghosts[d], d);
    placed = placed || desc.global[d] != 0;
  }
  f.extents = aligned(desc.extents, desc.ndims, 1);
  f.ghosts = aligned(desc.ghosts, desc.ndims, 0);
  set_strides(f, desc);
  f.global = placed ? aligned(desc.global, desc.ndims, 1) : f.extents;
  f.offset = aligned(desc.offset, desc.ndims, 0);
  check_place(f);
  return f;
}

std::byte* reach(HostField& field, Device& device, bool read) {
  if (!field.data)
    refuse("field '{}' has no array yet. Expected a pointer in `data`, or by keelson_insitu_field_data()", field.name);
  if (!field.on_host || device.shares_host_memory()) return static_cast<std::byte*>(field.data);
  const auto bytes = static_cast<std::size_t>(field.span()) * field.element_bytes();
  if (!field.copy) {
    field.copy = device.allocate(bytes, "field " + field.name);
    read = true;  // the whole copy is brought back later, including cells that no kernel writes
  }
  if (read) device.copy_from_host(field.copy.get(), field.data, bytes);
  return static_cast<std::byte*>(field.copy.get());
}

void bring_back(HostField& field, Device& device) {
  if (!field.copy) return;
  device.copy_to_host(field.data, field.copy.get(), static_cast<std::size_t>(field.span()) * field.element_bytes());
}

Tiling make_tiling(const HostField& field, const Triple& tile, const Triple& halo, const std::string& model) {
  Tiling t{.ndims = field.ndims, .tile = tile, .halo = halo, .origins = {}};
  Triple count{};
  for (std::size_t d = 0; d < 3; ++d) {
    if (tile[d] < 1 || tile[d] > field.extents[d])
      refuse(
          "model '{}': tiles of {} cells, but the interior of field '{}' has {} on this rank. Expected tiles that fit "
          "into it: choose a smaller `tile`, or fewer ranks",
          model, to_string(tile, field.ndims), field.name, to_string(field.extents, field.ndims));
    if (halo[d] < 0) refuse("model '{}': a halo of {} cells. Expected 0 or more", model, halo[d]);
    count[d] = (field.extents[d] + tile[d] - 1) / tile[d];
  }
  for (std::int64_t z = 0; z < count[0]; ++z)
    for (std::int64_t y = 0; y < count[1]; ++y)
      for (std::int64_t x = 0; x < count[2]; ++x) {
        const Triple at{z, y, x};
        Triple origin;
        for (std::size_t d = 0; d < 3; ++d) origin[d] = std::min(at[d] * tile[d], field.extents[d] - tile[d]);
        t.origins.push_back(origin);
      }
  return t;
}

}  // namespace keelson::insitu
