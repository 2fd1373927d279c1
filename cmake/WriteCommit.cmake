# cmake -DSOURCE_DIR=... -DHEADER=... -P WriteCommit.cmake: a header with the commit of the sources, which changes only when
# that does. Empty where git or its folder is missing (a release's archive).
set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -c safe.directory=* -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n\ninline constexpr const char* keelson_commit = \"${commit}\";\n")
