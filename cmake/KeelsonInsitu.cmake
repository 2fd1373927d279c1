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
