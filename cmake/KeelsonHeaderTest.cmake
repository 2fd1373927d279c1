# Every public header of engine, comm, nets and search compiles alone and includes no vendor's header. Headers in a folder named
# detail, or in a folder of comm, are not public. Vendors' headers may lie in the compiler's default path, so decoys that
# refuse to be included stand before it.

set(header_dir ${PROJECT_BINARY_DIR}/tests/headers)
set(decoys mpi.h hdf5.h H5Cpp.h fftw3.h omp.h dnnl.h dnnl.hpp oneapi/dnnl/dnnl.h oneapi/dnnl/dnnl.hpp
  Kokkos_Core.hpp KokkosBlas.hpp cuda.h cuda_runtime.h cudnn.h nccl.h CLI/CLI.hpp nlohmann/json.hpp)
foreach(decoy IN LISTS decoys)
  file(CONFIGURE OUTPUT ${header_dir}/decoys/${decoy} CONTENT "#error \"a public header includes ${decoy}\"\n")
endforeach()

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/engine/*.hpp ${PROJECT_SOURCE_DIR}/comm/*.hpp ${PROJECT_SOURCE_DIR}/nets/*.hpp
  ${PROJECT_SOURCE_DIR}/search/*.hpp)
list(FILTER headers EXCLUDE REGEX "/detail/|^comm/.*/")
# Several targets, test_headers_0 and so on, so that CI can take turns: a header is always in the same one.
set(shares 8)
math(EXPR last_share "${shares} - 1")
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.hpp$" ".cpp" source ${header_dir}/${header})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"  // twice\n")
  string(MD5 hash ${header})
  string(SUBSTRING ${hash} 0 4 hash)
  math(EXPR share "0x${hash} % ${shares}")
  list(APPEND sources_${share} ${source})
endforeach()
add_custom_target(test_headers)
foreach(share RANGE ${last_share})
  if(NOT sources_${share})
    add_custom_target(test_headers_${share})
    continue()
  endif()
  add_library(test_headers_${share} OBJECT EXCLUDE_FROM_ALL ${sources_${share}})
  target_include_directories(test_headers_${share} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(test_headers_${share} SYSTEM PRIVATE
    ${header_dir}/decoys $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(test_headers_${share} PRIVATE -Wall -Wextra -O0)
  add_dependencies(test_headers test_headers_${share})
endforeach()
if(NOT KEELSON_SANITIZE)
  add_test(NAME headers COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DSHARES=${shares}
    -P ${PROJECT_SOURCE_DIR}/cmake/CheckHeaders.cmake)
  set_tests_properties(headers PROPERTIES TIMEOUT 1200 PROCESSORS 2 SKIP_REGULAR_EXPRESSION "headers are skipped")
endif()
