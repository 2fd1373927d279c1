#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/device.hpp"

struct keelson_insitu_field_desc;  // keelson/insitu.h, which includes mpi.h

/// Arrays of the host program, and their tiles. All fields have three dimensions here: for a field of two dimensions, a
/// dimension of extent 1 comes first.
namespace keelson::insitu {

/// One number for each dimension.
using Triple = std::array<std::int64_t, 3>;

/// The index, among three dimensions, of dimension `d` of a field of `ndims`.
inline std::size_t axis_of(int d, int ndims) {
  const int axis = 3 - ndims + d;
  return static_cast<std::size_t>(axis);
}

/// An array of the host.
struct HostField {
  std::string name;
  void* data = nullptr;  ///< the first element of the array, ghost cells included
  bool is_double = false;
  bool on_host = false;  ///< KEELSON_INSITU_HOST
  int ndims = 0;
  Triple extents{1, 1, 1}, strides{}, ghosts{}, global{1, 1, 1}, offset{};
  std::shared_ptr<void> copy;  ///< copy on the device of an array that the device cannot reach; made when first needed

  std::size_t element_bytes() const { return is_double ? 8 : 4; }
  std::int64_t cells() const { return extents[0] * extents[1] * extents[2]; }  ///< cells of the interior
  std::int64_t span() const;    ///< elements from the first to one past the last, ghost cells included
  std::int64_t origin() const;  ///< element number of the first interior cell
};

/// Checks and completes the host's description. Throws InputError.
HostField make_field(const keelson_insitu_field_desc& desc);

/// The array, or a copy of it that the device can reach. With `read`, a copy gets the present values. Throws InputError
/// if the field has no array.
std::byte* reach(HostField& field, Device& device, bool read);
/// If the device has a copy, writes it back to the host's array.
void bring_back(HostField& field, Device& device);

/// The tiles that cover the interior of a rank.
struct Tiling {
  int ndims = 0;
  Triple tile{1, 1, 1}, halo{};
  std::vector<Triple> origins;  ///< the first cell of each tile, in row-major order

  std::int64_t count() const { return static_cast<std::int64_t>(origins.size()); }
  std::int64_t extent(int d) const { return tile[d] + 2 * halo[d]; }  ///< extent of the network's input
};

/// Throws InputError for tiles that are larger than the interior. `model`: for messages.
Tiling make_tiling(const HostField& field, const Triple& tile, const Triple& halo, const std::string& model);

/// "64x64", the last `ndims` of the three.
std::string to_string(const Triple& t, int ndims);

}  // namespace keelson::insitu
