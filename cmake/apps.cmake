# The command.
file(GLOB_RECURSE TERN_APP_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/apps/*.c)
if(TERN_APP_SOURCES)
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
  add_executable(tern ${TERN_APP_SOURCES})
  target_link_libraries(tern PRIVATE tern_static PkgConfig::EDIT)
  include(GNUInstallDirs)
  target_compile_definitions(tern PRIVATE TERN_MODEL_DIR="${CMAKE_INSTALL_FULL_DATADIR}/tern/models")
endif()
