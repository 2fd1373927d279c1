# KEELSON_HAVE_CUDNN: whether the cuda backend convolves by cuDNN. In builds with CUDA only.
set(KEELSON_WITH_CUDNN AUTO CACHE STRING "cuDNN for the cuda backend: AUTO, ON or OFF")
set(KEELSON_HAVE_CUDNN OFF)
if(KEELSON_HAVE_CUDA AND (KEELSON_WITH_CUDNN OR KEELSON_WITH_CUDNN STREQUAL "AUTO"))
  find_package(cuDNN 9 QUIET)
  if(cuDNN_FOUND)
    set(KEELSON_HAVE_CUDNN ON)
  elseif(NOT KEELSON_WITH_CUDNN STREQUAL "AUTO")
    message(FATAL_ERROR "KEELSON_WITH_CUDNN=ON, but cuDNN 9 was not found (${cuDNN_VERSION}); set cuDNN_ROOT.")
  endif()
endif()

# Volta, sm_70 and sm_72: cuDNN 9.10 is the last that has kernels for it.
if(KEELSON_HAVE_CUDNN AND cuDNN_VERSION VERSION_GREATER_EQUAL 9.11)
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^7[0-4]")
      message(FATAL_ERROR
        "CMAKE_CUDA_ARCHITECTURES has '${architecture}', but cuDNN ${cuDNN_VERSION} in ${cuDNN_INCLUDE_DIR} has no kernels "
        "for Volta; a cuDNN from 9.0 to 9.10 is expected. Set cuDNN_ROOT to cuDNN 9.10 for CUDA 12, leave "
        "'${architecture}' out, or configure with -DKEELSON_WITH_CUDNN=OFF, which computes convolutions as matrix products.")
    endif()
  endforeach()
endif()
