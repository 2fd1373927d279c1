# Every dependency comes from find_package; Kokkos alone can also be downloaded.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
set(MPI_CXX_SKIP_MPICXX ON CACHE BOOL "Leave out the C++ bindings that MPI dropped")
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
find_package(HDF5C 1.10 REQUIRED)
find_package(ZLIB REQUIRED)
if(KEELSON_APPS)
  find_package(CLI11 REQUIRED)
  find_package(FFTW3 REQUIRED)
endif()

# --- Kokkos >= 4.5 and < 6. Its version file accepts one major version only, hence no version range here. CUDA is used
# where it was asked for, or where the Kokkos that was found has it.
if(NOT TARGET Kokkos::kokkos AND NOT FETCHCONTENT_SOURCE_DIR_KOKKOS)
  set(Kokkos_LAUNCH_COMPILER OFF)  # its sources' way to nvcc is not ours: see keelson_cuda_sources
  find_package(Kokkos CONFIG QUIET)
endif()
if(Kokkos_FOUND AND (Kokkos_VERSION VERSION_LESS 4.5 OR Kokkos_VERSION VERSION_GREATER_EQUAL 6))
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} found in ${Kokkos_DIR}, but 4.5 <= version < 6 is needed. "
                      "Set Kokkos_ROOT to another one, or hide this one with CMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON.")
elseif(NOT TARGET Kokkos::kokkos AND NOT KEELSON_FETCH_KOKKOS)
  message(FATAL_ERROR "Kokkos is not installed. Set Kokkos_ROOT, or configure with -DKEELSON_FETCH_KOKKOS=ON.")
endif()

set(KEELSON_HAVE_CUDA OFF)
if(Kokkos_FOUND)
  string(TOUPPER "${Kokkos_DEVICES}" Kokkos_DEVICES)
  if("CUDA" IN_LIST Kokkos_DEVICES)
    set(KEELSON_HAVE_CUDA ON)
  endif()
  if(KEELSON_HAVE_CUDA AND NOT KEELSON_WITH_CUDA AND NOT KEELSON_WITH_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_CUDA=OFF, but Kokkos in ${Kokkos_DIR} was built with CUDA, and everything that "
                        "includes it has to be, too. Set Kokkos_ROOT to another one, or CMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON.")
  elseif(NOT KEELSON_HAVE_CUDA AND KEELSON_WITH_CUDA AND NOT KEELSON_WITH_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_CUDA=ON, but Kokkos in ${Kokkos_DIR} was built without CUDA (${Kokkos_DEVICES}). "
                        "Set Kokkos_ROOT to another one, or CMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON for one built here.")
  endif()
elseif(KEELSON_WITH_CUDA AND NOT KEELSON_WITH_CUDA STREQUAL "AUTO")
  set(KEELSON_HAVE_CUDA ON)
endif()
if(KEELSON_HAVE_CUDA)
  include(KeelsonCuda)
endif()
if(NOT TARGET Kokkos::kokkos)
  include(KeelsonFetchKokkos)
endif()
if(KEELSON_HAVE_CUDA)
  keelson_own_kokkos_flags()
  keelson_hide_cuda_driver()
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

# --- LAPACK
set(KEELSON_HAVE_LAPACK OFF)
if(NOT KEELSON_WITH_LAPACK STREQUAL "OFF")
  find_package(LAPACK QUIET)
  if(TARGET LAPACK::LAPACK)
    set(KEELSON_HAVE_LAPACK ON)
  elseif(NOT KEELSON_WITH_LAPACK STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_LAPACK=ON, but LAPACK was not found; set BLA_VENDOR or CMAKE_PREFIX_PATH.")
  endif()
endif()

# --- libdeflate
set(KEELSON_HAVE_LIBDEFLATE OFF)
if(NOT KEELSON_WITH_LIBDEFLATE STREQUAL "OFF")
  find_package(LibDeflate QUIET)
  if(TARGET libdeflate::libdeflate)
    set(KEELSON_HAVE_LIBDEFLATE ON)
  elseif(NOT KEELSON_WITH_LIBDEFLATE STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_LIBDEFLATE=ON, but libdeflate was not found; set LibDeflate_ROOT.")
  endif()
endif()

# --- Apache Arrow's Parquet library >= 12
set(KEELSON_HAVE_PARQUET OFF)
if(NOT KEELSON_WITH_PARQUET STREQUAL "OFF")
  find_package(Parquet CONFIG QUIET)
  if(Parquet_FOUND AND Parquet_VERSION VERSION_GREATER_EQUAL 12)
    set(KEELSON_HAVE_PARQUET Parquet::parquet_static)
    if(TARGET Parquet::parquet_shared)
      set(KEELSON_HAVE_PARQUET Parquet::parquet_shared)
    endif()
  elseif(NOT KEELSON_WITH_PARQUET STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_PARQUET=ON, but Apache Arrow >= 12 with Parquet was not found; set Parquet_ROOT.")
  endif()
endif()

# --- cpp-httplib: with a CMake package (Spack), or with pkg-config alone (Debian)
set(KEELSON_HAVE_HTTPLIB OFF)
if(KEELSON_APPS AND NOT KEELSON_WITH_HTTPLIB STREQUAL "OFF")
  find_package(httplib CONFIG QUIET)
  find_package(PkgConfig QUIET)
  if(TARGET httplib::httplib)
    set(KEELSON_HAVE_HTTPLIB httplib::httplib)
  elseif(PkgConfig_FOUND)
    pkg_check_modules(httplib QUIET IMPORTED_TARGET cpp-httplib)
    if(TARGET PkgConfig::httplib)
      set(KEELSON_HAVE_HTTPLIB PkgConfig::httplib)
    endif()
  endif()
  if(NOT KEELSON_HAVE_HTTPLIB AND NOT KEELSON_WITH_HTTPLIB STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_HTTPLIB=ON, but cpp-httplib was not found; set httplib_ROOT.")
  endif()
endif()

# --- what the cuda backend calls
include(KeelsonCudnn)

message(STATUS "Kokkos ${Kokkos_VERSION} (${Kokkos_DEVICES}); Kokkos Kernels ${KEELSON_HAVE_KOKKOS_KERNELS}; "
               "oneDNN ${KEELSON_HAVE_ONEDNN} ${dnnl_VERSION}; MPI ${MPI_CXX_VERSION}; HDF5 ${HDF5_VERSION}; "
               "LAPACK ${KEELSON_HAVE_LAPACK}; libdeflate ${KEELSON_HAVE_LIBDEFLATE}; Parquet ${KEELSON_HAVE_PARQUET} ${Parquet_VERSION}; "
               "cpp-httplib ${KEELSON_HAVE_HTTPLIB} ${httplib_VERSION}")
if(KEELSON_HAVE_CUDA)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}; "
                 "cuDNN ${KEELSON_HAVE_CUDNN} ${cuDNN_VERSION}")
endif()
