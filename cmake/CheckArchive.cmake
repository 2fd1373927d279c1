# cmake -P: installs the archive's components of BUILD_DIR, moves them elsewhere, and runs a program there that needs
# only them and the system.
set(moved ${WORK_DIR}/moved)
file(REMOVE_RECURSE ${WORK_DIR})
foreach(component IN ITEMS programs libraries nvidia check)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG} --component ${component}
    --prefix ${WORK_DIR}/made OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(RENAME ${WORK_DIR}/made ${moved})

# Nothing of the system but what the archive leaves to it, and nothing of the build.
set(env ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH)
file(GLOB programs ${moved}/bin/*)
foreach(program IN LISTS programs)
  execute_process(COMMAND ${env} ldd ${program} OUTPUT_VARIABLE loaded COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" loaded "${loaded}")
  foreach(line IN LISTS loaded)
    if(line MATCHES " => ([^ ]+)")
      cmake_path(IS_PREFIX moved "${CMAKE_MATCH_1}" NORMALIZE ours)
      if(ours)
        continue()
      endif()
    endif()
    if(line MATCHES "not found" OR line MATCHES "${BUILD_DIR}/(bin|lib|_deps)" OR line MATCHES "cuda/|libcudnn.*=> /usr")
      message(FATAL_ERROR "${program} takes a library from elsewhere: ${line}")
    elseif(line MATCHES "lib(hdf5|fmt|fftw3f?|gomp|cudart|cublas|cublasLt|cusolver|cusparse|nvJitLink|cudnn|nccl)[^ ]* => ")
      message(FATAL_ERROR "${program} does not take a library from lib/ beside it: ${line}")
    endif()
  endforeach()
endforeach()

execute_process(COMMAND ${env} ${moved}/bin/keelson-cosmoflow --help OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${env} ${moved}/bin/keelson-cosmoflow generate --out ${WORK_DIR}/data --size 16 --particles 1
  --train 8 --validation 8 --test 8 COMMAND_ERROR_IS_FATAL ANY)
file(GLOB samples ${WORK_DIR}/data/*/*)
if(NOT samples OR NOT EXISTS ${moved}/README.md OR NOT EXISTS ${moved}/LICENSE)
  message(FATAL_ERROR "The archive lacks its README or LICENSE, or its program made nothing.")
endif()

# The script finds the programs beside it. 77: nothing failed, but tiny sizes, or a CPU, let no target pass.
if(EXISTS ${moved}/scripts)
  execute_process(COMMAND ${env} ${moved}/scripts/gpu-check.sh --quick --stages machine --time-limit 600 --out ${WORK_DIR}/gpu-check
    RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT code EQUAL 77 OR NOT EXISTS ${WORK_DIR}/gpu-check/summary.json)
    message(FATAL_ERROR "gpu-check.sh of the archive ended with ${code}: ${said}")
  endif()
endif()
