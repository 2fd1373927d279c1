# libdeflate::libdeflate. (Its own CMake package is missing where distributions built it before version 1.15, and names
# the static and the shared library differently.)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(LibDeflate_PC QUIET libdeflate)
endif()
find_path(LibDeflate_INCLUDE_DIR libdeflate.h HINTS ${LibDeflate_PC_INCLUDE_DIRS} ${LibDeflate_PC_INCLUDEDIR})
find_library(LibDeflate_LIBRARY deflate HINTS ${LibDeflate_PC_LIBRARY_DIRS} ${LibDeflate_PC_LIBDIR})
mark_as_advanced(LibDeflate_INCLUDE_DIR LibDeflate_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibDeflate
  REQUIRED_VARS LibDeflate_LIBRARY LibDeflate_INCLUDE_DIR VERSION_VAR LibDeflate_PC_VERSION)

if(LibDeflate_FOUND AND NOT TARGET libdeflate::libdeflate)
  add_library(libdeflate::libdeflate UNKNOWN IMPORTED)
  set_target_properties(libdeflate::libdeflate PROPERTIES
    IMPORTED_LOCATION ${LibDeflate_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LibDeflate_INCLUDE_DIR})
endif()
