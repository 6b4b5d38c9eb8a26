# What `cmake --install` puts where: commands, headers, the two libraries, and the files by which
# pkg-config and CMake find them. The compiler's static archive stays behind, for it is of no use
# without LLVM's.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)

install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

foreach(tool tilewright tilewright-opt)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

if(TARGET tilewright_image)
  install(TARGETS tilewright_image LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

if(TARGET tilewright_runtime)
  set_target_properties(tilewright_headers PROPERTIES EXPORT_NAME headers)
  set_target_properties(tilewright_runtime_shared PROPERTIES EXPORT_NAME runtime)
  set_target_properties(tilewright_runtime PROPERTIES EXPORT_NAME runtime_static)
  set(libraries tilewright_headers tilewright_runtime_shared tilewright_runtime)
  if(TARGET tilewright_compiler_shared)
    set_target_properties(tilewright_compiler_shared PROPERTIES EXPORT_NAME compiler)
    list(APPEND libraries tilewright_compiler_shared)
  endif()
  install(TARGETS ${libraries}
          EXPORT tilewright
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tilewright NAMESPACE tilewright:: DESTINATION ${package_dir}
          FILE tilewright-targets.cmake)
  configure_package_config_file(cmake/tilewright-config.cmake.in tilewright-config.cmake
                                INSTALL_DESTINATION ${package_dir}
                                NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(tilewright-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/tilewright-config.cmake
                ${PROJECT_BINARY_DIR}/tilewright-config-version.cmake
          DESTINATION ${package_dir})
  # Relative, so that the installed tree can be moved.
  file(RELATIVE_PATH TW_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
       ${CMAKE_INSTALL_PREFIX})
  foreach(name runtime compiler)
    configure_file(cmake/tilewright-${name}.pc.in tilewright-${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/tilewright-${name}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endif()
