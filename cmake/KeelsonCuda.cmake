# Makes the CUDA language ready for the sources that hold kernels; everything else stays with the host compiler.
# Included where the build has CUDA. CMAKE_CUDA_ARCHITECTURES: those of the GPUs here, else 80 and 90, with PTX of the
# highest for what comes after it.

if(NOT CMAKE_CUDA_COMPILER AND DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER $ENV{CUDACXX} CACHE FILEPATH "CUDA's compiler" FORCE)
endif()
find_program(CMAKE_CUDA_COMPILER nvcc
  HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA's compiler")
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "A CUDA build was asked for, but nvcc is in none of PATH, $CUDA_HOME/bin, $CUDA_PATH/bin and "
                      "/usr/local/cuda/bin. Set CUDACXX, or configure with -DKEELSON_WITH_CUDA=OFF.")
endif()
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
  OUTPUT_VARIABLE known_architectures ERROR_VARIABLE problem RESULT_VARIABLE status)
string(REGEX MATCHALL "[0-9]+" known_architectures "${known_architectures}")
if(NOT status EQUAL 0 OR NOT known_architectures)
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} does not say which GPU architectures it knows: ${status}\n${problem}")
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE gpus RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0 AND gpus MATCHES "[0-9]+\\.[0-9]")
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" gpus "${gpus}")
    list(TRANSFORM gpus REPLACE "\\." "")
    list(TRANSFORM gpus APPEND "-real")
    list(REMOVE_DUPLICATES gpus)
    set(CMAKE_CUDA_ARCHITECTURES ${gpus} CACHE STRING "GPU architectures")
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPU architectures")
  endif()
elseif(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS} CACHE STRING "GPU architectures")
endif()

# The lowest one is Kokkos' own: its headers ask what every GPU of the list can do.
set(KEELSON_LOWEST_CUDA_ARCHITECTURE 999)
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  if(NOT architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES has '${architecture}', but numbers such as 80, 90a or 90-real are "
                        "expected. ${CMAKE_CUDA_COMPILER} knows ${known_architectures}.")
  elseif(NOT CMAKE_MATCH_1 IN_LIST known_architectures)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES has '${architecture}', but ${CMAKE_CUDA_COMPILER} knows only "
                        "${known_architectures}. (CUDA 12 is the last that builds for sm_70, CUDA 13 begins at sm_75.)")
  elseif(CMAKE_MATCH_1 LESS 70)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES has '${architecture}', but Keelson needs sm_70 or newer.")
  elseif(CMAKE_MATCH_1 LESS KEELSON_LOWEST_CUDA_ARCHITECTURE)
    set(KEELSON_LOWEST_CUDA_ARCHITECTURE ${CMAKE_MATCH_1})
  endif()
endforeach()

if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})  # one C++ library and one set of flags in all objects
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER} CACHE STRING "What runs the CUDA compiler, e.g. ccache")
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know yet that CUDA 12 has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD ${CMAKE_CXX_STANDARD})
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is CUDA ${CMAKE_CUDA_COMPILER_VERSION}, but 12 or newer is needed.")
endif()
find_package(CUDAToolkit REQUIRED)

# Compiles the sources as CUDA, with what Kokkos' kernels need. Warning 611 is about overriding one of several
# overloads, as backends do; the host compiler does not know nvcc's pragmas.
function(keelson_cuda_sources target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr;-Xcompiler=-fopenmp,-Wno-unknown-pragmas;--diag-suppress=611>)
  # Old versions of fmt take nvcc for a compiler without constexpr.
  target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
endfunction()

# A Kokkos that was built by its compiler wrapper, as Spack's, hands nvcc's flags to every C++ source and to the linker of
# all who link it. Ours are compiled by plain compilers, with the flags above.
function(keelson_own_kokkos_flags)
  if(Kokkos_FOUND AND NOT Kokkos_COMPILE_LANGUAGE STREQUAL "CUDA")
    foreach(library IN ITEMS kokkoscore kokkoscontainers kokkosalgorithms kokkossimd)
      if(TARGET Kokkos::${library})
        set_target_properties(Kokkos::${library} PROPERTIES INTERFACE_COMPILE_OPTIONS "" INTERFACE_LINK_OPTIONS "")
      endif()
    endforeach()
  endif()
endfunction()

# Kokkos links the driver's library, which login nodes do not have: backends/cuda_driver stands before it.
function(keelson_hide_cuda_driver)
  keelson_library(keelson_cuda_driver backends/cuda_driver
    PRIVATE $<BUILD_INTERFACE:CUDA::toolkit> ${CMAKE_DL_LIBS})
  set(kokkos_cuda Kokkos::CUDA)
  if(TARGET CUDA)  # Kokkos is part of this build. It exports this target, which then must not name one of ours.
    set(kokkos_cuda CUDA)
    add_dependencies(CUDA keelson_cuda_driver)
  endif()
  get_target_property(libraries ${kokkos_cuda} INTERFACE_LINK_LIBRARIES)
  set_target_properties(${kokkos_cuda} PROPERTIES INTERFACE_LINK_LIBRARIES
    "$<BUILD_INTERFACE:$<TARGET_FILE:keelson_cuda_driver>>;${libraries};${CMAKE_DL_LIBS}")
  add_link_options(-Wl,--as-needed)
endfunction()
