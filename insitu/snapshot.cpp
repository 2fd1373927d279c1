#include "insitu/snapshot.hpp"

#include <filesystem>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
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
struct Dense {
  std::shared_ptr<void> on_device, host;
  const void* values = nullptr;
};

Dense dense_interior(Field& field, Device& device) {
  const auto bytes = static_cast<std::size_t>(field.cells()) * field.element_bytes();
  const std::byte* data = reach(field, device, true);
  Dense dense{.on_device = device.allocate(bytes, "snapshot of " + field.name), .host = nullptr};
  copy_interior(field, data, dense.on_device.get());
  if (device.shares_host_memory()) {
    device.fence();
    dense.values = dense.on_device.get();
  } else {
    dense.host = device.allocate_host(bytes, "snapshot of " + field.name);
    device.copy_to_host(dense.host.get(), dense.on_device.get(), bytes);
    dense.values = dense.host.get();
  }
  return dense;
}

/// The ranks' parts make up the whole of each field.
void check_parts(const std::vector<Field*>& fields, Communicator& ranks) {
  std::map<std::string, std::string> globals;
  for (const Field* f : fields) globals["global of '" + f->name + "'"] = to_string(f->global, f->ndims);
  compare_values(ranks, globals, "whole fields", "give keelson_insitu_field() the same `global` on all ranks");
  for (const Field* f : fields) {
    std::int64_t cells = f->cells();
    ranks.allreduce(&cells, 1, Reduction::sum);
    if (cells != f->global[0] * f->global[1] * f->global[2])
      refuse(
          "snapshot: the ranks have {} cells of field '{}' together, but the whole field is {}. Expected `global`, the "
          "extents over all ranks, and `offset`, where the rank's part begins, in keelson_insitu_field()",
          cells, f->name, to_string(f->global, f->ndims));
  }
}

void write_field(hid_t file, const Field& field, const void* values, hid_t transfer, const std::string& path) {
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

/// Calls of HDF5 are collective: after each of them the ranks agree whether to go on, and all of them close the file.
void write_file(const std::string& path, const std::vector<Field*>& fields, const std::vector<Dense>& dense,
                std::int64_t step, double time, Communicator& ranks, MPI_Comm comm) {
  const hdf5::detail::Lock lock;
  const auto access = access_of(comm, path);
  hid_t file = -1;
  on_each_rank(&ranks, [&] {
    file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.file);
    check(file >= 0, path, "create the file");
  });
  std::string problem;
  const auto attempt = [&](const auto& work) {
    try {
      on_each_rank(&ranks, work);
    } catch (const std::exception& e) {
      problem = e.what();
    }
  };
  for (std::size_t i = 0; i < fields.size() && problem.empty(); ++i)
    attempt([&] { write_field(file, *fields[i], dense[i].values, access.transfer, path); });
  if (problem.empty())
    attempt([&] {
      write_attribute(file, "step", H5T_NATIVE_INT64, &step, path);
      write_attribute(file, "time", H5T_NATIVE_DOUBLE, &time, path);
    });
  const herr_t closed = H5Fclose(file);
  if (!problem.empty()) fail("{}", problem);
  on_each_rank(&ranks, [&] { check(closed >= 0, path, "write the file"); });
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
  check_parts(fields, ranks);
  std::vector<Dense> dense;
  on_each_rank(&ranks, [&] {
    for (Field* f : fields) dense.push_back(dense_interior(*f, device));
  });
  const std::string partial = path + ".partial";
  try {
    write_file(partial, fields, dense, step, time, ranks, comm);
  } catch (...) {
    std::error_code ignored;
    if (ranks.rank() == 0) std::filesystem::remove(partial, ignored);
    throw;
  }
  on_first_rank(&ranks, [&] { std::filesystem::rename(partial, path); });
}

}  // namespace keelson::insitu
