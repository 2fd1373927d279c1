#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "engine/data/hdf5/detail/hdf5_links.hpp"

namespace keelson::hdf5 {

using detail::Handle;
using detail::innermost_reason;
using detail::Lock;
using detail::place;

std::vector<std::string> File::dataset_names() const {
  struct Visit {
    std::vector<std::string> names;
    hid_t access;
  } visit{{}, access()};
  const auto add = [](hid_t group, const char* name, const H5L_info_t* link, void* to) -> herr_t {
    auto& v = *static_cast<Visit*>(to);
    if (link->type == H5L_TYPE_EXTERNAL) return 0;
    const Handle object(H5Oopen(group, name, v.access), H5Oclose);
    if (object.ok() && H5Iget_type(object) == H5I_DATASET) v.names.emplace_back(name);
    return 0;
  };
  const Lock lock;
  H5Lvisit(id_, H5_INDEX_NAME, H5_ITER_INC, add, &visit);  // what cannot be visited has no name that could be read
  return visit.names;
}

std::vector<std::string> File::dimension_names(const std::string& name) const {
  const Lock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  const auto last_part = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  if (H5Aexists(dataset, "DIMENSION_LIST") <= 0) {  // a dimension's own array has none
    const Handle space(H5Dget_space(dataset), H5Sclose);
    const bool is_dimension = H5Aexists(dataset, "CLASS") > 0 && H5Sget_simple_extent_ndims(space) == 1;
    return is_dimension ? std::vector{last_part(name)} : std::vector<std::string>{};
  }
  const auto refuse_list = [&] {
    refuse("{}: the attribute 'DIMENSION_LIST' cannot be read ({}). Is the copy complete?", place(path_, name),
           innermost_reason());
  };
  const Handle list(H5Aopen(dataset, "DIMENSION_LIST", H5P_DEFAULT), H5Aclose);
  const Handle stored(H5Aget_type(list), H5Tclose), space(H5Aget_space(list), H5Sclose);
  const Handle type(H5Tvlen_create(H5T_STD_REF_OBJ), H5Tclose);
  const auto n = H5Sget_simple_extent_npoints(space);
  constexpr hssize_t most_dimensions = H5S_MAX_RANK;
  if (H5Tget_class(stored) != H5T_VLEN || n < 0 || n > most_dimensions) refuse_list();
  std::vector<hvl_t> references(static_cast<std::size_t>(n), hvl_t{});
  if (H5Aread(list, type, references.data()) < 0) refuse_list();
  std::vector<std::string> names;
  for (const hvl_t& r : references) {
    std::string target;
    const Handle dimension(r.len > 0 ? H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, r.p) : -1, H5Oclose);
    const auto length = dimension.ok() ? H5Iget_name(dimension, nullptr, 0) : 0;
    if (length > 0) {
      target.resize(static_cast<std::size_t>(length));
      H5Iget_name(dimension, target.data(), target.size() + 1);
    }
    names.push_back(last_part(target));
  }
#if H5_VERSION_GE(1, 12, 0)
  H5Treclaim(type, space, H5P_DEFAULT, references.data());
#else
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, references.data());
#endif
  return names;
}

}  // namespace keelson::hdf5
