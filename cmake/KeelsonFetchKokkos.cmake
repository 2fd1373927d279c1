# Kokkos as a part of this build: a pinned release, or the sources in FETCHCONTENT_SOURCE_DIR_KOKKOS.
include(FetchContent)
option(Kokkos_ENABLE_OPENMP "Kokkos' OpenMP backend" ON)
option(Kokkos_ENABLE_SERIAL "Kokkos' serial backend" ON)
if(KEELSON_HAVE_CUDA)
  option(Kokkos_ENABLE_CUDA "Kokkos' CUDA backend" ON)
  option(Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE "Kokkos' kernels as CMake's language CUDA" ON)
  # Kokkos knows one architecture, which fixes what its headers offer. Its objects are made for all of the list below.
  foreach(known IN ITEMS
      VOLTA70 VOLTA72 TURING75 AMPERE80 AMPERE86 AMPERE87 ADA89 HOPPER90 BLACKWELL100 BLACKWELL120)
    string(REGEX MATCH "[0-9]+" number ${known})
    if(number LESS_EQUAL KEELSON_LOWEST_CUDA_ARCHITECTURE)
      set(kokkos_architecture ${known})
    endif()
  endforeach()
  set(Kokkos_ARCH_${kokkos_architecture} ON)
endif()
FetchContent_Declare(kokkos
  URL https://github.com/kokkos/kokkos/releases/download/4.7.02/kokkos-4.7.02.tar.gz
  URL_HASH SHA256=a81826ac0a167933d13506bc2a986fb5517038df9abb780fe9bb2c1d4e80803b
  DOWNLOAD_EXTRACT_TIMESTAMP OFF)

# No warnings of other people's sources, and no errors for them.
set(warning_as_error ${CMAKE_COMPILE_WARNING_AS_ERROR})
set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
FetchContent_MakeAvailable(kokkos)
file(STRINGS ${kokkos_BINARY_DIR}/KokkosConfigVersion.cmake Kokkos_VERSION REGEX "set\\(PACKAGE_VERSION \"")
string(REGEX MATCH "[0-9.]+" Kokkos_VERSION "${Kokkos_VERSION}")
set(Kokkos_DEVICES "part of this build")
set(CMAKE_COMPILE_WARNING_AS_ERROR ${warning_as_error})

if(KEELSON_HAVE_CUDA)
  foreach(target IN ITEMS kokkoscore kokkoscontainers kokkosalgorithms kokkossimd impl_git_version)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
    endif()
  endforeach()
endif()
