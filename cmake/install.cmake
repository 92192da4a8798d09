# What `make install` puts where.
include(GNUInstallDirs)

# The pkg-config file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH TERN_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" TERN_PC_PREFIX "${TERN_PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tern.pc.in ${PROJECT_BINARY_DIR}/tern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

install(TARGETS tern_static tern_shared ARCHIVE COMPONENT development LIBRARY COMPONENT library
  NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ TYPE INCLUDE COMPONENT development FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/tern
  COMPONENT command OPTIONAL FILES_MATCHING PATTERN "*.gguf")
install(FILES ${PROJECT_SOURCE_DIR}/docs/reference/tern.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
  COMPONENT command OPTIONAL)
if(TARGET tern)
  install(TARGETS tern RUNTIME COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/tern.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tern
    COMPONENT command)
  # zsh looks for what a distribution's packages bring in vendor-completions (Debian), under /usr/local in site-functions.
  install(CODE "
    set(folder site-functions)
    if(CMAKE_INSTALL_PREFIX MATCHES \"/usr/?$\")
      set(folder vendor-completions)
    endif()
    file(INSTALL \"${PROJECT_BINARY_DIR}/tern.zsh\" RENAME _tern
      DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${folder}\")" COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/tern.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT command)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command
    FILES_MATCHING PATTERN "*.1")
endif()

# All that is installed, and nothing else: what `make install` builds.
add_custom_target(install_needs DEPENDS tern_static tern_shared)
foreach(target tern tern_mpi tern_torrent)
  if(TARGET ${target})
    add_dependencies(install_needs ${target})
  endif()
endforeach()
add_custom_target(wheel_needs DEPENDS tern_shared) # and a wheel
if(TERN_CUDA_FOUND)
  add_dependencies(install_needs tern_cuda)
  add_dependencies(wheel_needs tern_cuda)
endif()
