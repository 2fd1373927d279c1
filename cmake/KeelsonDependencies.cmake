# Every dependency comes from find_package; Kokkos alone can also be downloaded.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
set(MPI_CXX_SKIP_MPICXX ON CACHE BOOL "Leave out the C++ bindings that MPI dropped")
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
find_package(HDF5C 1.10 REQUIRED)
if(KEELSON_APPS)
  find_package(CLI11 REQUIRED)
  find_package(FFTW3 REQUIRED)
endif()

# --- Kokkos >= 4.5 and < 6. Its version file accepts one major version only, hence no version range here.
if(NOT TARGET Kokkos::kokkos)
  find_package(Kokkos CONFIG QUIET)
endif()
if(Kokkos_FOUND AND (Kokkos_VERSION VERSION_LESS 4.5 OR Kokkos_VERSION VERSION_GREATER_EQUAL 6))
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} found in ${Kokkos_DIR}, but 4.5 <= version < 6 is needed. "
                      "Set Kokkos_ROOT to another one, or hide this one with CMAKE_IGNORE_PREFIX_PATH.")
elseif(NOT TARGET Kokkos::kokkos AND NOT KEELSON_FETCH_KOKKOS)
  message(FATAL_ERROR "Kokkos is not installed. Set Kokkos_ROOT, or configure with -DKEELSON_FETCH_KOKKOS=ON.")
elseif(NOT TARGET Kokkos::kokkos)
  include(FetchContent)
  option(Kokkos_ENABLE_OPENMP "Kokkos' OpenMP backend" ON)
  option(Kokkos_ENABLE_SERIAL "Kokkos' serial backend" ON)
  FetchContent_Declare(kokkos
    URL https://github.com/kokkos/kokkos/releases/download/4.7.02/kokkos-4.7.02.tar.gz
    URL_HASH SHA256=a81826ac0a167933d13506bc2a986fb5517038df9abb780fe9bb2c1d4e80803b
    DOWNLOAD_EXTRACT_TIMESTAMP OFF)
  FetchContent_MakeAvailable(kokkos)
endif()

# --- Kokkos Kernels
set(KEELSON_HAVE_KOKKOS_KERNELS OFF)
if(NOT KEELSON_WITH_KOKKOS_KERNELS STREQUAL "OFF")
  find_package(KokkosKernels CONFIG QUIET)
  if(TARGET Kokkos::kokkoskernels)
    set(KEELSON_HAVE_KOKKOS_KERNELS Kokkos::kokkoskernels)
  elseif(TARGET KokkosKernels::all_libs)  # as Trilinos installs it
    set(KEELSON_HAVE_KOKKOS_KERNELS KokkosKernels::all_libs)
  elseif(NOT KEELSON_WITH_KOKKOS_KERNELS STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_KOKKOS_KERNELS=ON, but Kokkos Kernels was not found; set KokkosKernels_ROOT.")
  endif()
endif()

# --- oneDNN >= 3.1
set(KEELSON_HAVE_ONEDNN OFF)
if(NOT KEELSON_WITH_ONEDNN STREQUAL "OFF")
  find_package(dnnl 3.1 CONFIG QUIET)
  if(TARGET DNNL::dnnl)
    set(KEELSON_HAVE_ONEDNN ON)
  elseif(NOT KEELSON_WITH_ONEDNN STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_ONEDNN=ON, but oneDNN >= 3.1 was not found; set dnnl_ROOT.")
  endif()
endif()

message(STATUS "Kokkos ${Kokkos_VERSION} (${Kokkos_DEVICES}); Kokkos Kernels ${KEELSON_HAVE_KOKKOS_KERNELS}; "
               "oneDNN ${KEELSON_HAVE_ONEDNN} ${dnnl_VERSION}; MPI ${MPI_CXX_VERSION}; HDF5 ${HDF5_VERSION}")
