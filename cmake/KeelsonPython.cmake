# The target python-package: the Python package, linked with the engine as it is installed, in python/site of the build.
find_package(Python3 QUIET COMPONENTS Interpreter)
string(REPLACE ";" "|" prefix_path "${CMAKE_PREFIX_PATH};${Kokkos_ROOT}")  # one argument
set(KEELSON_PYTHON_ARGUMENTS
  --build=${PROJECT_BINARY_DIR} --work=${PROJECT_BINARY_DIR}/python --config=$<CONFIG> --cmake=${CMAKE_COMMAND}
  --cxx=${CMAKE_CXX_COMPILER} --launcher=${CMAKE_CXX_COMPILER_LAUNCHER} --prefix-path=${prefix_path})
add_custom_target(python-package
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/install.py ${KEELSON_PYTHON_ARGUMENTS} VERBATIM USES_TERMINAL)
