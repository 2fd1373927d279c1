# How targets are made: each globs its folder, so adding a source file needs no edit here.

# A folder that holds only headers becomes an INTERFACE library, which knows one visibility.
function(keelson_link target visibility)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    set(visibility INTERFACE)
  endif()
  target_link_libraries(${target} ${visibility} ${ARGN})
endfunction()

function(keelson_define target visibility)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    set(visibility INTERFACE)
  endif()
  target_compile_definitions(${target} ${visibility} ${ARGN})
endfunction()

# Warnings and sanitizers, for everything that is compiled here and for nobody who links it. Designated initialisers
# leave members out on purpose; GCC's maybe-uninitialized is wrong too often, inside the standard library, to be an error.
function(keelson_compile_options target)
  set(warnings -Wall -Wextra -Wno-missing-field-initializers -Wno-error=maybe-uninitialized)
  list(JOIN warnings "," nvcc_warnings)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${warnings}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${nvcc_warnings}>)
  if(KEELSON_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${KEELSON_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_definitions(${target} PRIVATE KEELSON_SANITIZED=1)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${KEELSON_SANITIZE}>)
  endif()
endfunction()

# Several sources as one translation unit: most of a source's time goes into the headers that it shares with others.
# Hence the anonymous namespaces of a target's sources must not define a name twice: scripts/check-names.py looks at that
# before anything is compiled. Without KEELSON_UNITY (preset debug) each source shows that it includes what it needs. A source's unit follows from the source's path alone, so that a new
# source changes one unit and leaves the others in the compiler's cache. The number of units is a power of two for the
# same reason: units are split when there are too many sources for them, and otherwise stay as they are.
function(keelson_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${KEELSON_UNITY} UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  set(units 1)
  math(EXPR most "${count} / 14")
  while(units LESS most)
    math(EXPR units "${units} * 2")
  endwhile()
  foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    string(MD5 hash ${name})
    string(SUBSTRING ${hash} 0 4 hash)
    math(EXPR unit "0x${hash} % ${units}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
  keelson_check_names(${target} ${sources})
endfunction()

# Where there is a Python. Also where each source is compiled alone, so that names do not collide later.
find_package(Python3 QUIET COMPONENTS Interpreter)
function(keelson_check_names target)
  if(NOT Python3_Interpreter_FOUND)
    return()
  endif()
  set(script ${PROJECT_SOURCE_DIR}/scripts/check-names.py)
  set(stamp ${PROJECT_BINARY_DIR}/names/${target})
  list(JOIN ARGN "\n" lines)
  file(GENERATE OUTPUT ${stamp}.txt CONTENT "${lines}\n")
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${Python3_EXECUTABLE} ${script} ${target} @${stamp}.txt
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${script} ${stamp}.txt ${ARGN} COMMENT "Checking names of ${target}")
  add_custom_target(${target}_names DEPENDS ${stamp})
  add_dependencies(${target} ${target}_names)
endfunction()

# keelson_library(<target> <folder> [EXCLUDE <regex>] [SOURCES <file>...] [PUBLIC <lib>...] [PRIVATE <lib>...])
function(keelson_library target folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "EXCLUDE" "SOURCES;PUBLIC;PRIVATE")
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS
      ${PROJECT_SOURCE_DIR}/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
    if(arg_EXCLUDE)
      list(FILTER arg_SOURCES EXCLUDE REGEX "${arg_EXCLUDE}")
    endif()
  endif()
  set(includes $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/keelson>)
  if(arg_SOURCES)
    add_library(${target} ${arg_SOURCES})
    target_include_directories(${target} PUBLIC ${includes})
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    keelson_unity(${target})
    keelson_compile_options(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${includes})
    target_compile_features(${target} INTERFACE cxx_std_20)
  endif()
  string(REGEX REPLACE "^keelson_" "" export_name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name})
  add_library(keelson::${export_name} ALIAS ${target})
  keelson_link(${target} PUBLIC ${arg_PUBLIC})
  keelson_link(${target} PRIVATE ${arg_PRIVATE})
endfunction()

# keelson_backend(<name> [EXCLUDE <regex>] [LINK <lib>...]): backends/<name>, which alone sees the vendor's headers. Of a
# CUDA build nvcc compiles the Kokkos backend and the .cu files of the others.
function(keelson_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCLUDE" "LINK")
  set(target keelson_backend_${name})
  set(exclude)
  if(arg_EXCLUDE)
    set(exclude EXCLUDE ${arg_EXCLUDE})
  endif()
  keelson_library(${target} backends/${name} ${exclude} PUBLIC keelson_engine PRIVATE ${arg_LINK})
  get_target_property(type ${target} TYPE)
  if(KEELSON_HAVE_CUDA AND NOT type STREQUAL INTERFACE_LIBRARY)
    get_target_property(kernels ${target} SOURCES)
    if(NOT name STREQUAL kokkos)
      list(FILTER kernels INCLUDE REGEX "\\.cu$")
    endif()
    keelson_cuda_sources(${target} ${kernels})
  endif()
  if(KEELSON_NATIVE AND NOT type STREQUAL INTERFACE_LIBRARY)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-march=native;-ffp-contract=fast;-fno-math-errno;-fno-trapping-math>)
  endif()
  set_property(GLOBAL APPEND PROPERTY KEELSON_BACKENDS ${name})
endfunction()

# keelson_backends: registry.cpp, the one file that lists the backends, told which ones were built.
function(keelson_backend_registry)
  get_property(names GLOBAL PROPERTY KEELSON_BACKENDS)
  keelson_library(keelson_backends backends EXCLUDE "/backends/[^/]+/" PUBLIC keelson_engine)
  foreach(name IN LISTS names)
    string(TOUPPER ${name} upper)
    keelson_link(keelson_backends PRIVATE keelson_backend_${name})
    keelson_define(keelson_backends PRIVATE KEELSON_HAVE_${upper}=1)
  endforeach()
  message(STATUS "Backends: ${names}")
endfunction()
