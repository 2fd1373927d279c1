# apps/common is the library keelson_app. apps/<name>/ with a main.cpp is the program keelson-<name>; its other sources
# are the library keelson_app_<name>, so that tests can link them. What others use too is in libraries of its own, which
# are installed: readers and generators of the programs' data, and the trainings of searches.

# Options, texts and reports take no time that matters, and most of what they include is templates: they compile in half of
# the time without the optimizer's later passes. Readers and generators of data are optimized as the engine is.
function(keelson_compile_fast target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# keelson_app_data(<target> <folders below apps>... [FILES <files below apps, without .cpp and .hpp>...] [LINK <lib>...])
set(KEELSON_APP_DATA)
set(data_folders)
set(data_files)
function(keelson_app_data target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;LINK")
  set(sources)
  foreach(folder IN LISTS arg_UNPARSED_ARGUMENTS)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  foreach(file IN LISTS arg_FILES)
    if(EXISTS ${PROJECT_SOURCE_DIR}/apps/${file}.cpp)
      list(APPEND sources ${PROJECT_SOURCE_DIR}/apps/${file}.cpp)
    endif()
  endforeach()
  keelson_library(${target} apps SOURCES ${sources} PUBLIC keelson_engine PRIVATE ${arg_LINK})
  set(KEELSON_APP_DATA ${KEELSON_APP_DATA} ${target} PARENT_SCOPE)
  set(data_folders ${data_folders} ${arg_UNPARSED_ARGUMENTS} PARENT_SCOPE)
  set(data_files ${data_files} ${arg_FILES} PARENT_SCOPE)
endfunction()

set(json $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
keelson_app_data(keelson_app_base
  FILES common/blueprint common/ensemble_file common/folder_lock common/machine common/run_folder common/suggest
        common/target_metrics common/time_table common/toml_file common/report/metrics_file common/report/network_plots
        common/report/rate_page common/report/report common/report/report_style common/report/sample_list
        common/report/svg_plot
  LINK ${json} $<BUILD_INTERFACE:CLI11::CLI11>)
keelson_app_data(keelson_cosmoflow_data cosmoflow/data)
keelson_app_data(keelson_cosmoflow_universe cosmoflow/universe LINK FFTW3::double FFTW3::float)
keelson_app_data(keelson_lm_data lm/text lm/source)
keelson_app_data(keelson_tabular_data tabular/data tabular/collision LINK ${json})
keelson_app_data(keelson_label_data label/diffraction label/images label/choose)
keelson_app_data(keelson_climate_data climate/data climate/weather climate/heuristics LINK FFTW3::double)
keelson_app_data(keelson_minerva_data minerva/data minerva/detector)
keelson_app_data(keelson_search_training search/training search/page LINK keelson_search keelson_app_base ${json})
set(parts_of_cosmoflow keelson_cosmoflow_data keelson_cosmoflow_universe)
set(parts_of_lm keelson_lm_data)
set(parts_of_climate keelson_climate_data)
set(parts_of_tabular keelson_tabular_data)
set(parts_of_minerva keelson_minerva_data)
set(parts_of_label keelson_label_data)
set(parts_of_bench keelson_cosmoflow_data)
set(parts_of_search keelson_search keelson_search_training)
list(JOIN data_folders "|" data_pattern)
list(JOIN data_files "|" data_files_pattern)

keelson_library(keelson_app apps/common EXCLUDE "/apps/(${data_files_pattern})\\.cpp$"
  PUBLIC keelson_app_base keelson_nets keelson_backends keelson_comm nlohmann_json::nlohmann_json
  PRIVATE CLI11::CLI11 ${CMAKE_DL_LIBS})
keelson_compile_fast(keelson_app)

set(KEELSON_APP_PROGRAMS)
file(GLOB mains CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*/main.cpp)
foreach(main IN LISTS mains)
  cmake_path(GET main PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  keelson_library(keelson_app_${name} apps/${name} EXCLUDE "/apps/(${name}/main\\.cpp$|(${data_pattern})/)"
    PUBLIC keelson_app ${parts_of_${name}})
  keelson_compile_fast(keelson_app_${name})
  add_executable(keelson-${name} ${main})
  target_link_libraries(keelson-${name} PRIVATE keelson_app_${name})
  keelson_compile_options(keelson-${name})
  list(APPEND KEELSON_APP_PROGRAMS keelson-${name})
endforeach()

# What keelson-bench compare has in it: the published figures of other machines, and the commit that it was built from.
set(generated ${PROJECT_BINARY_DIR}/generated/bench)
set(published ${PROJECT_SOURCE_DIR}/apps/bench/compare/published.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${published})
file(READ ${published} content)
file(CONFIGURE OUTPUT ${generated}/published_json.hpp @ONLY
  CONTENT "#pragma once\n\ninline constexpr const char* published_json = R\"json(@content@)json\";\n")
add_custom_target(keelson_commit BYPRODUCTS ${generated}/commit.hpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DHEADER=${generated}/commit.hpp
          -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake)
add_dependencies(keelson_app_bench keelson_commit)
set_source_files_properties(${PROJECT_SOURCE_DIR}/apps/bench/compare/commit.cpp  # alone is compiled anew for each commit
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_include_directories(keelson_app_bench PRIVATE ${generated})

# The page of keelson-label, within the program.
set(generated ${PROJECT_BINARY_DIR}/generated/label)
set(content "#pragma once\n")
foreach(kind IN ITEMS css js)
  set(page ${PROJECT_SOURCE_DIR}/apps/label/page/page.${kind})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  file(READ ${page} text)
  string(APPEND content "\ninline constexpr const char* page_${kind} = R\"page(${text})page\";\n")
endforeach()
file(CONFIGURE OUTPUT ${generated}/page_files.hpp @ONLY CONTENT "@content@")
target_include_directories(keelson_app_label PRIVATE ${generated})
if(KEELSON_HAVE_HTTPLIB)  # its header is large, and alone in a unit
  target_link_libraries(keelson_app_label PRIVATE ${KEELSON_HAVE_HTTPLIB})
  keelson_define(keelson_app_label PRIVATE KEELSON_HAVE_HTTPLIB=1)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/apps/label/serve/server.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endif()

add_custom_target(programs DEPENDS ${KEELSON_APP_PROGRAMS})
include(KeelsonSimGrid)
if(TARGET keelson-scale-replay)
  add_dependencies(programs keelson-scale-replay)
endif()
