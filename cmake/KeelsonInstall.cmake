# The installed package: find_package(keelson) gives keelson::engine, comm, nets, search, backends and insitu, and, with
# the programs, the readers and generators of their data (keelson::cosmoflow_data ...) and keelson::search_training.
# Programs find shared libraries in lib/ beside them, where the archive has them, else where they were linked.
include(CMakePackageConfigHelpers)

get_property(backends GLOBAL PROPERTY KEELSON_BACKENDS)
list(TRANSFORM backends PREPEND keelson_backend_)
if(KEELSON_APP_PROGRAMS)
  set_target_properties(${KEELSON_APP_PROGRAMS} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../lib" INSTALL_RPATH_USE_LINK_PATH ON)
endif()
foreach(program IN LISTS KEELSON_APP_PROGRAMS)  # a RPATH holds for the libraries' own libraries, too; a RUNPATH does not
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
endforeach()
set(KEELSON_INSTALLED keelson_engine keelson_comm keelson_nets keelson_search ${KEELSON_INSITU} keelson_backends
  keelson_backend_common keelson_backend_lapack ${backends} ${KEELSON_APP_DATA} ${KEELSON_APP_PROGRAMS})
if(TARGET python-package)
  add_dependencies(python-package ${KEELSON_INSTALLED})
endif()
install(TARGETS ${KEELSON_INSTALLED}
  EXPORT keelsonTargets RUNTIME_DEPENDENCY_SET keelson_libraries RUNTIME COMPONENT programs)

foreach(folder IN ITEMS engine nets search)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson
      FILES_MATCHING PATTERN "*.hpp" PATTERN detail EXCLUDE)
  endif()
endforeach()
foreach(folder IN LISTS data_folders)
  install(DIRECTORY apps/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson/apps/${folder}
    FILES_MATCHING PATTERN "*.hpp" PATTERN detail EXCLUDE)
endforeach()
foreach(file IN LISTS data_files)
  cmake_path(GET file PARENT_PATH folder)
  install(FILES apps/${file}.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson/apps/${folder})
endforeach()
install(FILES insitu/keelson/insitu.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson)
if(TARGET keelson_insitu_fortran)  # the source, too: other compilers cannot read a module
  install(DIRECTORY ${PROJECT_BINARY_DIR}/fortran/ insitu/fortran/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson/fortran
    FILES_MATCHING PATTERN keelson_insitu.mod PATTERN keelson_insitu.f90)
endif()
foreach(folder IN ITEMS backends comm)  # headers of the folders below are not public
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/keelson/${folder})
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/keelson)
install(EXPORT keelsonTargets NAMESPACE keelson:: DESTINATION ${package_dir})
configure_package_config_file(cmake/keelsonConfig.cmake.in keelsonConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(keelsonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/keelsonConfig.cmake ${PROJECT_BINARY_DIR}/keelsonConfigVersion.cmake
  cmake/FindFFTW3.cmake cmake/FindHDF5C.cmake cmake/FindLibDeflate.cmake cmake/FindNCCL.cmake cmake/FindcuDNN.cmake DESTINATION ${package_dir})

if(KEELSON_APP_PROGRAMS)
  include(KeelsonArchive)
endif()
