# keelson_add_suites(<program> <prefix> PROPERTIES <test property> <value> ...): each suite of a GoogleTest program is the
# CTest test <prefix>.<suite>, so that `ctest -R Softmax` chooses it and its process starts once. The suites are read from
# the program when CTest starts; a program that is not built is the failing test <prefix>.NOT_BUILT.
function(keelson_add_suites program prefix)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" PROPERTIES)
  set(script ${PROJECT_BINARY_DIR}/tests/${program}-suites.cmake)
  file(GENERATE OUTPUT ${script} CONTENT
    "set(program [==[$<TARGET_FILE:${program}>]==])
set(prefix ${prefix})
set(folder [==[${PROJECT_BINARY_DIR}]==])
set(properties [==[${arg_PROPERTIES}]==])
include([==[${PROJECT_SOURCE_DIR}/cmake/ReadSuites.cmake]==])
")
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()
