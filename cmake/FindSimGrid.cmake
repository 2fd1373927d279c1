# SimGrid::simgrid, SimGrid_SMPI_INCLUDE_DIR (mpi.h of its simulated MPI) and SimGrid_VERSION. Looks in SimGrid_ROOT and
# in the system's paths.
find_path(SimGrid_INCLUDE_DIR simgrid/s4u.hpp)
find_path(SimGrid_SMPI_INCLUDE_DIR smpi/mpi.h HINTS ${SimGrid_INCLUDE_DIR})
find_library(SimGrid_LIBRARY simgrid)
if(SimGrid_SMPI_INCLUDE_DIR)
  set(SimGrid_SMPI_INCLUDE_DIR ${SimGrid_SMPI_INCLUDE_DIR}/smpi)
endif()
if(SimGrid_INCLUDE_DIR AND EXISTS ${SimGrid_INCLUDE_DIR}/simgrid/version.h)
  file(STRINGS ${SimGrid_INCLUDE_DIR}/simgrid/version.h lines REGEX "^#define SIMGRID_VERSION_(MAJOR|MINOR) +[0-9]+")
  list(TRANSFORM lines REPLACE "^.* ([0-9]+).*$" "\\1")
  list(JOIN lines "." SimGrid_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid
  REQUIRED_VARS SimGrid_LIBRARY SimGrid_INCLUDE_DIR SimGrid_SMPI_INCLUDE_DIR VERSION_VAR SimGrid_VERSION)
mark_as_advanced(SimGrid_INCLUDE_DIR SimGrid_LIBRARY)
if(SimGrid_FOUND AND NOT TARGET SimGrid::simgrid)
  add_library(SimGrid::simgrid UNKNOWN IMPORTED)
  set_target_properties(SimGrid::simgrid PROPERTIES
    IMPORTED_LOCATION ${SimGrid_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES "${SimGrid_INCLUDE_DIR}")
endif()
