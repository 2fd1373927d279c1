# HDF5::HDF5, the C library. (CMake's own FindHDF5 fails on Debian's library names from CMake 4.3 on, and HDF5's package
# file differs too much between versions and distributors.) Debian's packages for MPI and without it have names of their own;
# hdf5 is the one that the machine prefers. HDF5_IS_PARALLEL tells whether it was built for MPI.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_search_module(HDF5_PC QUIET hdf5 hdf5-openmpi hdf5-mpich hdf5-serial)
endif()
find_path(HDF5_INCLUDE_DIR hdf5.h HINTS ${HDF5_PC_INCLUDE_DIRS} PATH_SUFFIXES hdf5/openmpi hdf5/mpich hdf5/serial)
find_library(HDF5_LIBRARY NAMES hdf5 hdf5_openmpi hdf5_mpich hdf5_serial HINTS ${HDF5_PC_LIBRARY_DIRS})
mark_as_advanced(HDF5_INCLUDE_DIR HDF5_LIBRARY)

if(HDF5_INCLUDE_DIR)
  set(HDF5_IS_PARALLEL OFF)
  file(GLOB config_headers ${HDF5_INCLUDE_DIR}/H5pubconf*.h)  # more than one where 32 and 64 bits stand side by side
  foreach(header IN LISTS config_headers)
    file(STRINGS ${header} defines REGEX "define +(H5_VERSION +\"|H5_HAVE_PARALLEL +1)")
    if(defines MATCHES "H5_VERSION +\"([0-9.]+)")
      set(HDF5_VERSION ${CMAKE_MATCH_1})
    endif()
    if(defines MATCHES "H5_HAVE_PARALLEL")
      set(HDF5_IS_PARALLEL ON)
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HDF5C REQUIRED_VARS HDF5_LIBRARY HDF5_INCLUDE_DIR VERSION_VAR HDF5_VERSION)

if(HDF5C_FOUND AND NOT TARGET HDF5::HDF5)
  add_library(HDF5::HDF5 UNKNOWN IMPORTED)
  set_target_properties(HDF5::HDF5 PROPERTIES
    IMPORTED_LOCATION ${HDF5_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HDF5_INCLUDE_DIR})
  if(HDF5_IS_PARALLEL)  # its header then includes mpi.h
    target_link_libraries(HDF5::HDF5 INTERFACE MPI::MPI_CXX)
  endif()
endif()
