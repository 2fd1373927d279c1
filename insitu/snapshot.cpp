#include "insitu/snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "insitu/kernels.hpp"
#include "insitu/parts.hpp"

namespace keelson::insitu {
namespace {

using hdf5::detail::Handle;
using hdf5::detail::innermost_reason;

void check(bool ok, const std::string& path, const std::string& what) {
  if (!ok) fail("{}: cannot {}: {}", path, what, innermost_reason());
}

/// HDF5 properties to open a file on all ranks, and to write collectively.
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

/// The interior to be written: in host memory, without gaps.
struct Dense {
  std::shared_ptr<void> on_device, host;
  const void* values = nullptr;
};

Dense dense_interior(HostField& field, Device& device) {
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

/// Throws InputError unless each cell of each field belongs to exactly one rank.
void check_parts(const std::vector<HostField*>& fields, Communicator& ranks) {
  std::map<std::string, std::string> globals;
  for (const HostField* f : fields) globals["global of '" + f->name + "'"] = to_string(f->global, f->ndims);
  compare_values(ranks, globals, "whole fields", "give keelson_insitu_field() the same `global` on all ranks");
  std::vector<Part> mine;
  for (const HostField* f : fields) mine.push_back({.offset = f->offset, .extents = f->extents});
  std::string bytes(mine.size() * sizeof(Part), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());
  const auto all = ranks.allgather(bytes);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::vector<Part> parts(all.size());
    for (std::size_t r = 0; r < all.size(); ++r) std::memcpy(&parts[r], all[r].data() + i * sizeof(Part), sizeof(Part));
    const auto problem = problem_of_parts(parts, fields[i]->global, fields[i]->ndims);
    if (!problem.empty())
      refuse(
          "snapshot of field '{}': {}. Expected each cell of the whole field, {}, on one rank: give "
          "keelson_insitu_field() `global`, the extents over all ranks, and `offset`, where the rank's interior begins",
          fields[i]->name, problem, to_string(fields[i]->global, fields[i]->ndims));
  }
}

void write_attribute(hid_t file, const char* name, hid_t type, const void* value, const std::string& path) {
  const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(file, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  check(attribute.ok() && H5Awrite(attribute, type, value) >= 0, path, std::string("write the attribute ") + name);
}

/// The numbers of a field's own dimensions, in HDF5's type.
std::array<hsize_t, 3> sizes(const Triple& t, int ndims) {
  std::array<hsize_t, 3> all{};
  for (int d = 0; d < ndims; ++d) all[static_cast<std::size_t>(d)] = static_cast<hsize_t>(t[axis_of(d, ndims)]);
  return all;
}

hid_t type_of(const HostField& field) { return field.is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT; }

/// Reserves disk space for the full size of a file, if the file system can do so.
void reserve_space(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY);
  struct stat status{};
  int error = file < 0 || ::fstat(file, &status) != 0 ? errno : 0;
  if (error == 0 && ::fallocate(file, 0, 0, status.st_size) != 0) error = errno;
  if (file >= 0) ::close(file);
  if (error == 0 || error == EOPNOTSUPP || error == ENOSYS) return;
  fail("{}: cannot reserve {:.1f} MB{}", path, 1e-6 * static_cast<double>(status.st_size),
       reason_of_writing(error, std::filesystem::path(path).parent_path()));
}

/// Makes the file without the fields' values. One rank does so alone, and finds out whether the disk is full: if one
/// rank fails in a collective write, closing the file never ends (HDF5 2.2, Open MPI 6).
void lay_out(const std::string& path, const std::vector<HostField*>& fields, std::int64_t step, double time) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  check(file >= 0, path, "create the file");
  {
    const Handle early(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_alloc_time(early, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(early, H5D_FILL_TIME_NEVER);
    for (const HostField* f : fields) {
      const Handle space(H5Screate_simple(f->ndims, sizes(f->global, f->ndims).data(), nullptr), H5Sclose);
      const Handle set(H5Dcreate2(file, f->name.c_str(), type_of(*f), space, H5P_DEFAULT, early, H5P_DEFAULT),
                       H5Dclose);
      check(set.ok(), path, "make the data set '" + f->name + "'");
    }
    write_attribute(file, "step", H5T_NATIVE_INT64, &step, path);
    write_attribute(file, "time", H5T_NATIVE_DOUBLE, &time, path);
  }
  check(H5Fclose(file) >= 0, path, "write the file");
  reserve_space(path);
}

void write_values(hid_t file, const HostField& field, const void* values, hid_t transfer, const std::string& path) {
  const auto offset = sizes(field.offset, field.ndims), count = sizes(field.extents, field.ndims);
  const Handle set(H5Dopen2(file, field.name.c_str(), H5P_DEFAULT), H5Dclose);
  check(set.ok(), path, "open the data set '" + field.name + "'");
  const Handle in_file(H5Dget_space(set), H5Sclose);
  const Handle in_memory(H5Screate_simple(field.ndims, count.data(), nullptr), H5Sclose);
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr) >= 0, path,
        "select cells");
  check(H5Dwrite(set, type_of(field), in_memory, in_file, transfer, values) >= 0, path, "write '" + field.name + "'");
}

/// All ranks write the values. After each field they agree whether to continue, and at the end all of them close the
/// file.
void write_together(const std::string& path, const std::vector<HostField*>& fields, const std::vector<Dense>& dense,
                    Communicator& ranks, MPI_Comm comm) {
  const hdf5::detail::Lock lock;
  const auto access = access_of(comm, path);
  hid_t file = -1;
  on_each_rank(&ranks, [&] {
    file = H5Fopen(path.c_str(), H5F_ACC_RDWR, access.file);
    check(file >= 0, path, "open the file");
  });
  std::exception_ptr problem;
  for (std::size_t i = 0; i < fields.size() && !problem; ++i) try {
      on_each_rank(&ranks, [&] { write_values(file, *fields[i], dense[i].values, access.transfer, path); });
    } catch (...) {
      problem = std::current_exception();
    }
  const herr_t closed = H5Fclose(file);
  if (problem) std::rethrow_exception(problem);
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

void write_snapshot(const std::string& path, const std::vector<HostField*>& fields, std::int64_t step, double time,
                    Device& device, Communicator& ranks, MPI_Comm comm) {
  check_parts(fields, ranks);
  std::vector<Dense> dense;
  on_each_rank(&ranks, [&] {
    for (HostField* f : fields) dense.push_back(dense_interior(*f, device));
  });
  const std::string partial = path + ".partial";
  try {
    on_first_rank(&ranks, [&] {
      const hdf5::detail::Lock lock;
      lay_out(partial, fields, step, time);
    });
    write_together(partial, fields, dense, ranks, comm);
  } catch (...) {
    std::error_code ignored;
    if (ranks.rank() == 0) std::filesystem::remove(partial, ignored);
    throw;
  }
  on_first_rank(&ranks, [&] { std::filesystem::rename(partial, path); });
}

}  // namespace keelson::insitu
