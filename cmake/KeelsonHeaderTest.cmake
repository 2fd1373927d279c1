# Every public header of engine, comm and nets compiles alone and includes no vendor's header. Headers below a folder
# named detail are not public. Vendors' headers may lie in the compiler's default path, so decoys that refuse to be
# included stand before it.

set(header_dir ${PROJECT_BINARY_DIR}/tests/headers)
set(decoys mpi.h hdf5.h H5Cpp.h fftw3.h omp.h dnnl.h dnnl.hpp oneapi/dnnl/dnnl.h oneapi/dnnl/dnnl.hpp
  Kokkos_Core.hpp KokkosBlas.hpp cuda.h cuda_runtime.h cudnn.h nccl.h CLI/CLI.hpp nlohmann/json.hpp)
foreach(decoy IN LISTS decoys)
  file(CONFIGURE OUTPUT ${header_dir}/decoys/${decoy} CONTENT "#error \"a public header includes ${decoy}\"\n")
endforeach()

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/engine/*.hpp ${PROJECT_SOURCE_DIR}/comm/*.hpp ${PROJECT_SOURCE_DIR}/nets/*.hpp)
list(FILTER headers EXCLUDE REGEX "/detail/")
set(sources)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.hpp$" ".cpp" source ${header_dir}/${header})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"  // twice\n")
  list(APPEND sources ${source})
endforeach()
if(sources)
  add_library(test_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(test_headers PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(test_headers SYSTEM PRIVATE
    ${header_dir}/decoys $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(test_headers PRIVATE -Wall -Wextra -O0)
  if(NOT KEELSON_SANITIZE)
    add_test(NAME headers COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target test_headers)
    set_tests_properties(headers PROPERTIES TIMEOUT 1200 PROCESSORS 2)
  endif()
endif()
