# cpack: a relocatable archive for nodes without package managers. bin/ has the programs, lib/ the shared libraries that
# they load, but for those that belong to the node: the C and C++ libraries, MPI and the GPU's driver. cuDNN, by far the
# largest, is an archive of its own, which unpacks into the same folder.

# --- lib/: what the programs link
set(of_the_node
  "^ld-linux" "^linux-vdso" "^lib(c|m|dl|rt|pthread|util|resolv|anl|mvec|gcc_s|stdc\\+\\+)\\.so"
  "^libmpi" "^libopen[-_](mpi|rte|pal)\\.so" "^libpm" "^libprrte\\.so" "^libcuda\\.so" "^libnvidia-")
set(where)
if(KEELSON_HAVE_CUDA)
  set(where DIRECTORIES ${CUDAToolkit_LIBRARY_DIR})
endif()
install(RUNTIME_DEPENDENCY_SET keelson_libraries
  PRE_EXCLUDE_REGEXES ${of_the_node} "^libcudnn"
  ${where}
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
  file(GLOB compilers ${CUDAToolkit_LIBRARY_DIR}/libnvrtc.so.${CUDAToolkit_VERSION_MAJOR}
    ${CUDAToolkit_LIBRARY_DIR}/libnvrtc-builtins.so.${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
  keelson_archive_libraries(libraries ${compilers})  # cuBLASLt and cuDNN compile kernels
endif()
if(KEELSON_HAVE_CUDNN)
  cmake_path(GET cuDNN_LIBRARY PARENT_PATH folder)
  string(REGEX MATCH "^[0-9]+" major ${cuDNN_VERSION})
  file(GLOB libraries ${folder}/libcudnn*.so.${major})
  keelson_archive_libraries(cudnn ${libraries})
  list(APPEND archive_components cudnn)
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
  if(KEELSON_HAVE_CUDNN)
    string(APPEND gpu_lines "\n- cuDNN ${cuDNN_VERSION} or a later 9.x: unpack the archive ...-cudnn.tar.gz beside this one, which puts it\n"
      "  into lib/, or have the site's in LD_LIBRARY_PATH.")
  endif()
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
set(CPACK_ARCHIVE_CUDNN_FILE_NAME ${archive}-cudnn)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
cpack_add_component_group(main)
cpack_add_component(programs GROUP main)
cpack_add_component(libraries GROUP main)
cpack_add_component(cudnn)
