# FFTW3::double and FFTW3::float. (FFTW's own CMake package is missing where it was built with autotools, and knows
# one precision only.)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(FFTW3_PC QUIET fftw3)
endif()
find_path(FFTW3_INCLUDE_DIR fftw3.h HINTS ${FFTW3_PC_INCLUDE_DIRS} ${FFTW3_PC_INCLUDEDIR})
find_library(FFTW3_DOUBLE_LIBRARY fftw3 HINTS ${FFTW3_PC_LIBRARY_DIRS} ${FFTW3_PC_LIBDIR})
find_library(FFTW3_FLOAT_LIBRARY fftw3f HINTS ${FFTW3_PC_LIBRARY_DIRS} ${FFTW3_PC_LIBDIR})
mark_as_advanced(FFTW3_INCLUDE_DIR FFTW3_DOUBLE_LIBRARY FFTW3_FLOAT_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FFTW3
  REQUIRED_VARS FFTW3_DOUBLE_LIBRARY FFTW3_FLOAT_LIBRARY FFTW3_INCLUDE_DIR VERSION_VAR FFTW3_PC_VERSION)

foreach(precision IN ITEMS double float)
  string(TOUPPER ${precision} upper)
  if(FFTW3_FOUND AND NOT TARGET FFTW3::${precision})
    add_library(FFTW3::${precision} UNKNOWN IMPORTED)
    set_target_properties(FFTW3::${precision} PROPERTIES
      IMPORTED_LOCATION ${FFTW3_${upper}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${FFTW3_INCLUDE_DIR})
  endif()
endforeach()
