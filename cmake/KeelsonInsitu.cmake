# insitu/ is the library keelson_insitu, for simulations in C, C++ and Fortran: the header insitu/keelson/insitu.h, and,
# where there is a Fortran compiler, the module keelson_insitu in a library of its own, keelson_insitu_fortran.
keelson_library(keelson_insitu insitu EXCLUDE "/insitu/(examples|redis)/"
  PUBLIC MPI::MPI_CXX keelson_engine
  PRIVATE keelson_nets keelson_comm keelson_backends keelson_backend_kokkos Kokkos::kokkos HDF5::HDF5)
target_include_directories(keelson_insitu PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/insitu> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(KEELSON_HAVE_CUDA)
  keelson_cuda_sources(keelson_insitu ${PROJECT_SOURCE_DIR}/insitu/kernels.cpp)
endif()
if(KEELSON_NATIVE)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/insitu/kernels.cpp PROPERTIES
    COMPILE_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/insitu/kernels.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set(KEELSON_INSITU keelson_insitu)

include(CheckLanguage)
check_language(Fortran)
if(CMAKE_Fortran_COMPILER)
  enable_language(Fortran)
  set(modules ${PROJECT_BINARY_DIR}/fortran)
  add_library(keelson_insitu_fortran insitu/fortran/keelson_insitu.f90)
  set_target_properties(keelson_insitu_fortran PROPERTIES
    EXPORT_NAME insitu_fortran Fortran_MODULE_DIRECTORY ${modules} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(keelson_insitu_fortran PUBLIC
    $<BUILD_INTERFACE:${modules}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/keelson/fortran>)
  target_link_libraries(keelson_insitu_fortran PUBLIC keelson_insitu)
  list(APPEND KEELSON_INSITU keelson_insitu_fortran)
endif()
add_custom_target(insitu DEPENDS ${KEELSON_INSITU})
if(NOT KEELSON_TESTS)
  return()
endif()

# The examples are tests, too.
enable_language(C)
add_executable(keelson-insitu-burgers insitu/examples/burgers.c)
set_target_properties(keelson-insitu-burgers PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(keelson-insitu-burgers PRIVATE -Wall -Wextra)
target_link_libraries(keelson-insitu-burgers PRIVATE keelson_insitu m)
if(TARGET keelson_insitu_fortran)
  find_package(MPI QUIET COMPONENTS Fortran)
  if(MPI_Fortran_FOUND)
    add_executable(keelson-insitu-blobs insitu/examples/blobs.f90)
    set_target_properties(keelson-insitu-blobs PROPERTIES Fortran_MODULE_DIRECTORY ${modules})
    target_link_libraries(keelson-insitu-blobs PRIVATE keelson_insitu_fortran MPI::MPI_Fortran)
  endif()
endif()

# For comparison: the same inference through a Redis database (docs/in-situ.md).
find_path(HIREDIS_INCLUDE_DIR hiredis/hiredis.h)
find_library(HIREDIS_LIBRARY hiredis)
mark_as_advanced(HIREDIS_INCLUDE_DIR HIREDIS_LIBRARY)
if(HIREDIS_INCLUDE_DIR AND HIREDIS_LIBRARY)
  add_executable(keelson-insitu-redis insitu/redis/compare.cpp)
  keelson_compile_options(keelson-insitu-redis)
  target_include_directories(keelson-insitu-redis SYSTEM PRIVATE ${HIREDIS_INCLUDE_DIR})
  target_link_libraries(keelson-insitu-redis PRIVATE keelson_insitu ${HIREDIS_LIBRARY})
endif()
