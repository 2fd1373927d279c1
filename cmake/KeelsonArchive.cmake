# cpack: a relocatable archive for nodes without package managers. bin/ has the programs, lib/ the shared libraries that
# they load, but for those that belong to the node: the C and C++ libraries, MPI and the GPU's driver. NVIDIA's libraries,
# by far the largest, are an archive of their own, and so is what scripts/gpu-check.sh needs. All unpack into one folder.

# --- lib/: what the programs link
set(of_the_node
  "^ld-linux" "^linux-vdso" "^lib(c|m|dl|rt|pthread|util|resolv|anl|mvec|gcc_s|stdc\\+\\+)\\.so"
  "^libmpi" "^libopen[-_](mpi|rte|pal)\\.so" "^libpm" "^libprrte\\.so" "^libcuda\\.so" "^libnvidia-")
set(of_nvidia "^lib(cuda|cublas|cudnn|cusolver|cusparse|nccl|nv)")
install(RUNTIME_DEPENDENCY_SET keelson_libraries
  PRE_EXCLUDE_REGEXES ${of_the_node} ${of_nvidia}
  LIBRARY DESTINATION lib COMPONENT libraries EXCLUDE_FROM_ALL
  RUNTIME DESTINATION lib COMPONENT libraries EXCLUDE_FROM_ALL)

# keelson_archive_libraries(<component> <file>...): what the linked libraries load while they run.
function(keelson_archive_libraries component)
  foreach(library IN LISTS ARGN)
    cmake_path(GET library FILENAME name)
    file(REAL_PATH ${library} real)
    install(FILES ${real} RENAME ${name} DESTINATION lib COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
endfunction()

set(archive_components programs libraries)
if(KEELSON_HAVE_CUDA)
  list(APPEND archive_components nvidia)
  install(RUNTIME_DEPENDENCY_SET keelson_libraries
    PRE_INCLUDE_REGEXES "^lib(cublas|cudart|cusolver|cusparse|nvJitLink|nccl)" PRE_EXCLUDE_REGEXES ".*"
    DIRECTORIES ${CUDAToolkit_LIBRARY_DIR}
    LIBRARY DESTINATION lib COMPONENT nvidia EXCLUDE_FROM_ALL
    RUNTIME DESTINATION lib COMPONENT nvidia EXCLUDE_FROM_ALL)
  file(GLOB compilers ${CUDAToolkit_LIBRARY_DIR}/libnvrtc.so.${CUDAToolkit_VERSION_MAJOR}
    ${CUDAToolkit_LIBRARY_DIR}/libnvrtc-builtins.so.${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
  keelson_archive_libraries(nvidia ${compilers})  # cuBLASLt and cuDNN compile kernels
endif()
if(KEELSON_HAVE_CUDNN)
  cmake_path(GET cuDNN_LIBRARY PARENT_PATH folder)
  string(REGEX MATCH "^[0-9]+" major ${cuDNN_VERSION})
  file(GLOB libraries ${folder}/libcudnn*.so.${major})
  keelson_archive_libraries(nvidia ${libraries})
endif()

# --- what scripts/gpu-check.sh needs: the script, the tests that use the device, and an MPI for nodes without one
if(KEELSON_TESTS)
  list(APPEND archive_components check)
  foreach(test IN ITEMS ops cuda kokkos execute plan nets train mpi)
    if(TARGET test_${test})
      set_target_properties(test_${test} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib" INSTALL_RPATH_USE_LINK_PATH ON)
      target_link_options(test_${test} PRIVATE -Wl,--disable-new-dtags)
      install(TARGETS test_${test} RUNTIME DESTINATION bin COMPONENT check EXCLUDE_FROM_ALL)
    endif()
  endforeach()
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/gpu-check.sh DESTINATION scripts COMPONENT check EXCLUDE_FROM_ALL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/gpu_check DESTINATION scripts COMPONENT check EXCLUDE_FROM_ALL
    FILES_MATCHING PATTERN "*.py")
  include(KeelsonArchiveMpi)
endif()

# --- what a reader of the archive has to know
execute_process(COMMAND getconf GNU_LIBC_VERSION
  OUTPUT_VARIABLE c_library OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(mpi_library)
foreach(library IN LISTS MPI_CXX_LIBRARIES)
  file(REAL_PATH ${library} library)
  cmake_path(GET library FILENAME library)
  list(APPEND mpi_library ${library})
endforeach()
list(FILTER mpi_library EXCLUDE REGEX "cxx")
list(JOIN mpi_library ", " mpi_library)
set(gpu_lines)
if(KEELSON_HAVE_CUDA)
  string(REPLACE ";" ", " architectures "${CMAKE_CUDA_ARCHITECTURES}")
  set(gpu_lines "\n- NVIDIA's driver, one that runs CUDA ${CUDAToolkit_VERSION_MAJOR}, and a GPU (built for ${architectures}).")
  set(nvidia_libraries "CUDA ${CUDAToolkit_VERSION_MAJOR}'s libraries")
  if(KEELSON_HAVE_CUDNN)
    string(APPEND nvidia_libraries ", cuDNN ${cuDNN_VERSION} or a later 9.x")
  endif()
  if(KEELSON_HAVE_NCCL)
    string(APPEND nvidia_libraries ", NCCL ${NCCL_VERSION} or newer")
  endif()
  string(APPEND gpu_lines "\n- ${nvidia_libraries}: unpack the archive ...-nvidia.tar.gz\n"
    "  beside this one, which puts them into lib/, or have the site's in LD_LIBRARY_PATH.")
endif()
if(KEELSON_NATIVE)
  set(processor_line "- A processor that has all instructions of the one that built this (KEELSON_NATIVE=ON).")
else()
  set(processor_line "- Any ${CMAKE_SYSTEM_PROCESSOR} processor.")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/archive-readme.md.in archive/README.md @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/archive/README.md ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION . COMPONENT programs EXCLUDE_FROM_ALL)

# --- cpack
set(archive keelson-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
if(KEELSON_HAVE_CUDA)
  string(APPEND archive -cuda${CUDAToolkit_VERSION_MAJOR})
endif()
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME ${archive})
set(CPACK_PACKAGING_INSTALL_PREFIX /${archive})
set(CPACK_COMPONENTS_ALL ${archive_components})
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_MAIN_FILE_NAME ${archive})
set(CPACK_ARCHIVE_NVIDIA_FILE_NAME ${archive}-nvidia)
set(CPACK_ARCHIVE_CHECK_FILE_NAME ${archive}-check)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
cpack_add_component_group(main)
cpack_add_component(programs GROUP main)
cpack_add_component(libraries GROUP main)
cpack_add_component(nvidia)
cpack_add_component(check)
