# keelson-scale-replay, which simulates a training step on thousands of ranks for `keelson-bench scale`. SimGrid's mpi.h
# takes the place of the real one, so the program links neither MPI nor a library of Keelson that does.
set(KEELSON_WITH_SIMGRID AUTO CACHE STRING "SimGrid, to simulate large machines: AUTO, ON or OFF")
if(KEELSON_WITH_SIMGRID STREQUAL "OFF" OR KEELSON_SANITIZE)  # sanitizers do not know the stacks of simulated processes
  return()
endif()
find_package(SimGrid 4.1 QUIET)
if(NOT SimGrid_FOUND)
  if(NOT KEELSON_WITH_SIMGRID STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_SIMGRID=ON, but SimGrid >= 4.1 was not found (${SimGrid_VERSION}); set SimGrid_ROOT.")
  endif()
  return()
endif()
message(STATUS "SimGrid ${SimGrid_VERSION}")

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/replay/*.cpp)
set(shared ${PROJECT_SOURCE_DIR}/apps/bench/scale)
set(collectives ${PROJECT_SOURCE_DIR}/comm/allreduce)
add_executable(keelson-scale-replay
  ${sources} ${shared}/machine.cpp ${shared}/replay_job.cpp ${shared}/rounds.cpp ${collectives}/schedule.cpp)
target_include_directories(keelson-scale-replay PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(keelson-scale-replay SYSTEM BEFORE PRIVATE ${SimGrid_SMPI_INCLUDE_DIR})
target_link_libraries(keelson-scale-replay PRIVATE SimGrid::simgrid nlohmann_json::nlohmann_json fmt::fmt)
target_compile_features(keelson-scale-replay PRIVATE cxx_std_20)
keelson_compile_options(keelson-scale-replay)
keelson_unity(keelson-scale-replay)
set_target_properties(keelson-scale-replay PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS keelson-scale-replay RUNTIME COMPONENT simulation)
