#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "insitu/field.hpp"

namespace keelson::insitu {

/// Throws InputError, which says what to try, if `ranks` ranks cannot write one file together with the HDF5 of this
/// build.
void require_parallel_hdf5(int ranks);

/// Writes a file with a data set of global extents for each field, and with the attributes "step" and "time" of "/".
/// All ranks write their interiors together. The file appears under its name when it is complete. Collective; throws on
/// all ranks.
void write_snapshot(const std::string& path, const std::vector<HostField*>& fields, std::int64_t step, double time,
                    Device& device, Communicator& ranks, MPI_Comm comm);

}  // namespace keelson::insitu
