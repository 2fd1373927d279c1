#include "insitu/snapshot.hpp"

#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/data/detail/hdf5_handle.hpp"
#include "insitu/kernels.hpp"

namespace keelson::insitu {
namespace {

using hdf5::detail::Handle;
using hdf5::detail::innermost_reason;

void check(bool ok, const std::string& path, const std::string& what) {
  if (!ok) fail("{}: cannot {}: {}", path, what, innermost_reason());
}

/// For a file that all ranks open, and for writing together.
struct Access {
  Handle file, transfer;
};

#ifdef H5_HAVE_PARALLEL
constexpr bool parallel = true;

Access access_of(MPI_Comm comm, const std::string& path) {
  Access a{{H5Pcreate(H5P_FILE_ACCESS), H5Pclose}, {H5Pcreate(H5P_DATASET_XFER), H5Pclose}};
  check(H5Pset_fapl_mpio(a.file, comm, MPI_INFO_NULL) >= 0, path, "open it by MPI");
  check(H5Pset_dxpl_mpio(a.transfer, H5FD_MPIO_COLLECTIVE) >= 0, path, "write it by MPI");
  return a;
}
#else
constexpr bool parallel = false;

herr_t keep(hid_t) { return 0; }

Access access_of(MPI_Comm, const std::string&) { return {{H5P_DEFAULT, keep}, {H5P_DEFAULT, keep}}; }
#endif

/// The interior as it is to be written: in host memory, dense.
const void* dense_interior(Field& field, Device& device, std::shared_ptr<void>& on_device,
                           std::shared_ptr<void>& host) {
  const auto bytes = static_cast<std::size_t>(field.cells()) * field.element_bytes();
  const std::byte* data = reach(field, device, true);
  on_device = device.allocate(bytes, "snapshot of " + field.name);
  copy_interior(field, data, on_device.get());
  if (device.shares_host_memory()) {
    device.fence();
    return on_device.get();
  }
  host = device.allocate_host(bytes, "snapshot of " + field.name);
  device.copy_to_host(host.get(), on_device.get(), bytes);
  return host.get();
}

void write_field(hid_t file, Field& field, hid_t transfer, Device& device, const std::string& path) {
  std::shared_ptr<void> on_device, host;
  const void* values = dense_interior(field, device, on_device, host);
  hsize_t global[3], offset[3], count[3];
  const int first = 3 - field.ndims;
  for (int d = first; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    global[d - first] = static_cast<hsize_t>(field.global[i]);
    offset[d - first] = static_cast<hsize_t>(field.offset[i]);
    count[d - first] = static_cast<hsize_t>(field.extents[i]);
  }
  const hid_t type = field.is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
  const Handle in_file(H5Screate_simple(field.ndims, global, nullptr), H5Sclose);
  const Handle in_memory(H5Screate_simple(field.ndims, count, nullptr), H5Sclose);
  const Handle set(H5Dcreate2(file, field.name.c_str(), type, in_file, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                   H5Dclose);
  check(set.ok(), path, "make the data set '" + field.name + "'");
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, offset, nullptr, count, nullptr) >= 0, path, "select cells");
  check(H5Dwrite(set, type, in_memory, in_file, transfer, values) >= 0, path, "write '" + field.name + "'");
}

void write_attribute(hid_t file, const char* name, hid_t type, const void* value, const std::string& path) {
  const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(file, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  check(attribute.ok() && H5Awrite(attribute, type, value) >= 0, path, std::string("write the attribute ") + name);
}

void write_file(const std::string& path, const std::vector<Field*>& fields, std::int64_t step, double time,
                Device& device, MPI_Comm comm) {
  const hdf5::detail::Lock lock;
  const auto access = access_of(comm, path);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.file);
  check(id >= 0, path, "create the file");
  Handle file(id, H5Fclose);
  for (Field* f : fields) write_field(file, *f, access.transfer, device, path);
  write_attribute(file, "step", H5T_NATIVE_INT64, &step, path);
  write_attribute(file, "time", H5T_NATIVE_DOUBLE, &time, path);
  check(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, path, "write the file");
}

}  // namespace

void require_parallel_hdf5(int ranks) {
  if (parallel || ranks == 1) return;
  refuse(
      "snapshots of {} ranks need an HDF5 with MPI, but this Keelson was built with one without it. Expected a build "
      "with the parallel HDF5: Debian's libhdf5-openmpi-dev, Spack's hdf5+mpi, a cluster's module such as "
      "cray-hdf5-parallel",
      ranks);
}

void write_snapshot(const std::string& path, const std::vector<Field*>& fields, std::int64_t step, double time,
                    Device& device, Communicator& ranks, MPI_Comm comm) {
  const std::string partial = path + ".partial";
  std::string problem;
  try {
    for (Field* f : fields) reach(*f, device, false);  // fails alone, before others wait
  } catch (const std::exception& e) {
    problem = e.what();
  }
  for (const auto& text : ranks.allgather(problem))
    if (!text.empty()) throw InputError(text);
  try {
    write_file(partial, fields, step, time, device, comm);
    if (ranks.rank() == 0) std::filesystem::rename(partial, path);
  } catch (const std::exception& e) {
    problem = e.what();
  }
  for (const auto& text : ranks.allgather(problem))
    if (!text.empty()) fail("{}", text);
}

}  // namespace keelson::insitu
