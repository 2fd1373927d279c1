# cuDNN::cudnn, with cuDNN_VERSION. It lies beside CUDA, or where cuDNN_ROOT or CUDNN_ROOT say.
set(cudnn_hints ${CUDNN_ROOT} $ENV{CUDNN_ROOT} $ENV{CUDNN_PATH} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
find_path(cuDNN_INCLUDE_DIR cudnn_version.h
  HINTS ${cudnn_hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include include/${CUDAToolkit_VERSION_MAJOR})
find_library(cuDNN_LIBRARY NAMES cudnn libcudnn.so.9
  HINTS ${cudnn_hints} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib64 lib lib/${CUDAToolkit_VERSION_MAJOR})
mark_as_advanced(cuDNN_INCLUDE_DIR cuDNN_LIBRARY)

if(cuDNN_INCLUDE_DIR)
  set(version_parts)
  foreach(part IN ITEMS MAJOR MINOR PATCHLEVEL)
    file(STRINGS ${cuDNN_INCLUDE_DIR}/cudnn_version.h line REGEX "^#define CUDNN_${part} +[0-9]+")
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" number "${line}")
    list(APPEND version_parts ${number})
  endforeach()
  list(JOIN version_parts "." cuDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR VERSION_VAR cuDNN_VERSION)

if(cuDNN_FOUND AND NOT TARGET cuDNN::cudnn)
  add_library(cuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(cuDNN::cudnn PROPERTIES
    IMPORTED_LOCATION ${cuDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${cuDNN_INCLUDE_DIR})
  target_link_libraries(cuDNN::cudnn INTERFACE CUDA::toolkit)
endif()
