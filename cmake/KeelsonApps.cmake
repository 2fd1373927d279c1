# apps/common is the library keelson_app. apps/<name>/ with a main.cpp is the program keelson-<name>; its other sources
# are the library keelson_app_<name>, so that tests can link them. What several programs share of one is a library of its
# own: keelson_cosmoflow_data reads universes, for keelson-cosmoflow and keelson-bench.

keelson_library(keelson_app apps/common
  PUBLIC keelson_nets keelson_backends keelson_comm nlohmann_json::nlohmann_json PRIVATE CLI11::CLI11 ${CMAKE_DL_LIBS})

keelson_library(keelson_cosmoflow_data apps/cosmoflow/data PUBLIC keelson_engine)
set(parts_of_cosmoflow keelson_cosmoflow_data)
set(parts_of_bench keelson_cosmoflow_data)

set(KEELSON_APP_PROGRAMS)
file(GLOB mains CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*/main.cpp)
foreach(main IN LISTS mains)
  cmake_path(GET main PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  keelson_library(keelson_app_${name} apps/${name} EXCLUDE "/apps/(${name}/main\\.cpp$|cosmoflow/data/)"
    PUBLIC keelson_app ${parts_of_${name}} FFTW3::double FFTW3::float)
  add_executable(keelson-${name} ${main})
  target_link_libraries(keelson-${name} PRIVATE keelson_app_${name})
  keelson_compile_options(keelson-${name})
  list(APPEND KEELSON_APP_PROGRAMS keelson-${name})
endforeach()
add_custom_target(programs DEPENDS ${KEELSON_APP_PROGRAMS})
include(KeelsonSimGrid)
if(TARGET keelson-scale-replay)
  add_dependencies(programs keelson-scale-replay)
endif()
