# tests/<dir>/ with C++ sources is the GoogleTest program test_<dir>. These are special:
#   oracle   every op once more, serial and in float64: a library that judges kernels
#   support  a library linked into every test program (it may bring main())
#   mpi      test_mpi, with its own main(), run at 1, 2 and 4 ranks
#   insitu   test_insitu, the same, as a host program that uses keelson/insitu.h
#   <backend>  what only this backend has, where it is built
#   fuzz     test_fuzz, which feeds the programs damaged files: ./dev fuzz; the tests run it on logs of searches
#   headers  every public header compiles alone, without any vendor's headers
#   cli      tests/cli/test_*.py, run by Python; what they share lies beside them. The environment has KEELSON_BIN (the
#            folder of the programs) and KEELSON_MPIEXEC (how to start N ranks, but for "-n N", e.g. "mpirun --bind-to
#            none")
#   install  a stranger's project, built against the installed package
#
# The tests of the Python package lie beside it, in python/tests.

find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(KeelsonSuites)

set(tests_dir ${PROJECT_SOURCE_DIR}/tests)
get_property(backends GLOBAL PROPERTY KEELSON_BACKENDS)
list(TRANSFORM backends PREPEND keelson_backend_)
keelson_library(keelson_test_oracle tests/oracle PUBLIC keelson_engine)
if(KEELSON_SANITIZE)  # most of the tests' time would be the oracle's, whose loops are tested where they are compared
  target_compile_options(keelson_test_oracle PRIVATE -fno-sanitize=all -O2)
endif()
keelson_library(keelson_test_support tests/support
  PUBLIC keelson_test_oracle keelson_nets keelson_comm keelson_backends ${backends}
         nlohmann_json::nlohmann_json HDF5::HDF5 ZLIB::ZLIB MPI::MPI_CXX GTest::gtest)
if(KEELSON_HAVE_PARQUET)  # tests write Parquet files
  target_link_libraries(keelson_test_support PUBLIC ${KEELSON_HAVE_PARQUET})
  keelson_define(keelson_test_support PUBLIC KEELSON_HAVE_PARQUET=1)
  set_source_files_properties(${tests_dir}/support/parquet_files.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endif()
# What only some programs may link: main(), and the operator new that counts. And a whole program as a user writes it.
set_source_files_properties(${tests_dir}/support/main.cpp ${tests_dir}/support/allocations.cpp
  ${tests_dir}/docs/readme_example.cpp ${tests_dir}/docs/own_loop.cpp ${tests_dir}/docs/many_networks.cpp ${tests_dir}/docs/pruning.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# More ranks than cores are welcome here, and pinning them would stack them up.
set(mpiexec ${MPIEXEC_EXECUTABLE} --bind-to none)
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpiexec_version ERROR_QUIET)
if(mpiexec_version MATCHES "Open MPI|OpenRTE")
  list(APPEND mpiexec --map-by :OVERSUBSCRIBE)
endif()
list(JOIN mpiexec " " mpiexec_line)

# Two threads are enough to be parallel; waiting ones must not take the core of a neighbour for long.
set(test_environment
  OMP_NUM_THREADS=2 OMP_PROC_BIND=false GOMP_SPINCOUNT=1000
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  KEELSON_TUNE=off  # the same order of summation in every run
  KEELSON_OVERLAP=on  # also where rules of thumb leave it out: the more orders of work, the better
  KEELSON_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} "KEELSON_MPIEXEC=${mpiexec_line}")
set(suite_environment ${test_environment})
if(KEELSON_SANITIZE)
  # Open MPI's patching of mmap breaks that of the sanitizer. Its leaks are known by full stacks only, which take time at
  # each allocation: only where MPI is started.
  set(sanitizers OMPI_MCA_memory=^patcher UBSAN_OPTIONS=print_stacktrace=1
    LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/leaks-of-others.txt:print_suppressions=0)
  set(asan ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1)
  list(APPEND suite_environment ${sanitizers} ${asan})
  list(APPEND test_environment ${sanitizers} ${asan}:fast_unwind_on_malloc=0)
endif()

# Tests of a program's library have its name, but for these.
set(apps_of_app keelson_app_cosmoflow keelson_app_climate keelson_app_lm)
set(apps_of_mpi keelson_app_cosmoflow keelson_app_lm)
set(apps_of_universe keelson_app_cosmoflow)
set(apps_of_insitu keelson_insitu)
set(apps_of_docs keelson_app)
set(apps_of_search keelson_search)

file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${tests_dir}/*)
foreach(folder IN LISTS folders)
  cmake_path(GET folder FILENAME name)
  if(name MATCHES "^(support|oracle|fuzz|cli|headers|install)$" OR NOT IS_DIRECTORY ${folder})
    continue()
  endif()
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/backends/${name} AND NOT TARGET keelson_backend_${name})
    continue()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(NOT sources)
    continue()
  endif()
  add_executable(test_${name} ${sources})
  keelson_compile_options(test_${name})
  keelson_unity(test_${name})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")  # what takes time in tests is compiling them
    target_compile_options(test_${name} PRIVATE -O1)
  endif()
  target_compile_definitions(test_${name} PRIVATE KEELSON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(library IN ITEMS keelson_app_${name} ${apps_of_${name}})
    if(TARGET ${library})
      target_link_libraries(test_${name} PRIVATE ${library})
    endif()
  endforeach()
  target_link_libraries(test_${name} PRIVATE keelson_test_support)
  if(name MATCHES "^(mpi|insitu)$")
    foreach(ranks IN ITEMS 1 2 4)
      add_test(NAME ${name}.${ranks}
        COMMAND ${mpiexec} -n ${ranks} $<TARGET_FILE:test_${name}> --gtest_brief=1)
      set_tests_properties(${name}.${ranks} PROPERTIES
        TIMEOUT 1200 ENVIRONMENT "${test_environment};OMP_NUM_THREADS=1")
    endforeach()
    set_target_properties(test_${name} PROPERTIES ENABLE_EXPORTS ON)  # names in the stacks of tests that hang
    if(name STREQUAL mpi)  # ranks with other numbers of threads take the same algorithms
      add_test(NAME mpi.threads
        COMMAND ${mpiexec} -n 1 env OMP_NUM_THREADS=1 $<TARGET_FILE:test_mpi> --gtest_filter=Choices.*
          : -n 1 env OMP_NUM_THREADS=2 $<TARGET_FILE:test_mpi> --gtest_filter=Choices.*)
      set_tests_properties(mpi.threads PROPERTIES TIMEOUT 1200 ENVIRONMENT "${test_environment}")
    endif()
    if(name STREQUAL insitu)  # in a program whose Kokkos runs already
      add_test(NAME insitu.kokkos COMMAND ${mpiexec} -n 2 $<TARGET_FILE:test_insitu> --host-kokkos)
      set_tests_properties(insitu.kokkos PROPERTIES
        TIMEOUT 1200 ENVIRONMENT "${test_environment};OMP_NUM_THREADS=1")
    endif()
  else()
    # After the support library: its main(), where it has one, comes first.
    target_link_libraries(test_${name} PRIVATE GTest::gtest_main)
    keelson_add_suites(test_${name} ${name} PROPERTIES TIMEOUT 1200 ENVIRONMENT "${suite_environment}")
  endif()
endforeach()

# These tests launch kernels of their own.
target_link_libraries(test_kokkos PRIVATE Kokkos::kokkos)
if(KEELSON_HAVE_CUDA)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${tests_dir}/kokkos/*.cpp)
  keelson_cuda_sources(test_kokkos ${sources})
endif()

target_compile_definitions(test_onnx PRIVATE KEELSON_PYTHON="${Python3_EXECUTABLE}")  # runs models elsewhere

file(GLOB sources CONFIGURE_DEPENDS ${tests_dir}/fuzz/*.cpp)
add_executable(test_fuzz ${sources})
keelson_compile_options(test_fuzz)
keelson_unity(test_fuzz)
target_link_libraries(test_fuzz PRIVATE keelson_test_support keelson_app_lm keelson_app_cosmoflow keelson_app_climate
                                        keelson_app_search)
if(NOT KEELSON_SANITIZE)  # the programs get a limit of memory
  add_test(NAME fuzz.searches COMMAND test_fuzz --kind searches --files 300 --folder ${PROJECT_BINARY_DIR}/tests/fuzz)
  set_tests_properties(fuzz.searches PROPERTIES TIMEOUT 1200 ENVIRONMENT "${test_environment}")
endif()

set(with_device)
if(KEELSON_HAVE_CUDA)
  set(with_device ${tests_dir}/cli/with_device.sh)
endif()
file(GLOB scripts CONFIGURE_DEPENDS ${tests_dir}/cli/test_*.py)
foreach(script IN LISTS scripts)
  cmake_path(GET script STEM name)
  add_test(NAME cli.${name} COMMAND ${with_device} ${Python3_EXECUTABLE} ${script})
  set_tests_properties(cli.${name} PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endforeach()
set_tests_properties(cli.test_faults cli.test_spares cli.test_spatial_faults cli.test_random_faults PROPERTIES TIMEOUT 7200)  # with KEELSON_FAULTS=100

include(KeelsonHeaderTest)

if(EXISTS ${tests_dir}/install/CMakeLists.txt AND NOT KEELSON_SANITIZE)
  add_test(NAME install.consumer
    COMMAND ${with_device} ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DSOURCE_DIR=${tests_dir}/install
            -DWORK_DIR=${PROJECT_BINARY_DIR}/tests/install -DCONFIG=$<CONFIG> -DGENERATOR=${CMAKE_GENERATOR}
            -DCXX=${CMAKE_CXX_COMPILER} "-DPREFIX_PATH=${CMAKE_PREFIX_PATH};${Kokkos_ROOT}"
            -P ${PROJECT_SOURCE_DIR}/cmake/BuildConsumer.cmake)
  set_tests_properties(install.consumer PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endif()

# The Python package, built and installed against the installed engine, on 1 and 2 ranks.
if(KEELSON_APP_PROGRAMS AND NOT KEELSON_SANITIZE)
  add_test(NAME python.package
    COMMAND ${with_device} ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/tests/run.py ${KEELSON_PYTHON_ARGUMENTS})
  set_tests_properties(python.package PROPERTIES
    TIMEOUT 2400 PROCESSORS 2 SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endif()

if(KEELSON_APP_PROGRAMS AND NOT KEELSON_SANITIZE)
  add_test(NAME install.archive
    COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DWORK_DIR=${PROJECT_BINARY_DIR}/tests/archive
            -DCONFIG=$<CONFIG> -P ${PROJECT_SOURCE_DIR}/cmake/CheckArchive.cmake)
  set_tests_properties(install.archive PROPERTIES TIMEOUT 1200 ENVIRONMENT "${test_environment}")
endif()
