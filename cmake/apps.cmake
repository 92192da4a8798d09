# The command: its main file and a library of the rest, of which a fuzzer takes single commands.
file(GLOB_RECURSE TERN_APP_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/apps/*.c)
if(TERN_APP_SOURCES)
  set(TERN_APP_MAIN ${PROJECT_SOURCE_DIR}/src/apps/main.c)
  list(REMOVE_ITEM TERN_APP_SOURCES ${TERN_APP_MAIN})
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
  include(GNUInstallDirs)
  add_library(tern_commands STATIC EXCLUDE_FROM_ALL ${TERN_APP_SOURCES})
  include(cmake/hub.cmake)
  include(cmake/serve.cmake)
  target_link_libraries(tern_commands PUBLIC tern_hub tern_static PkgConfig::EDIT $<TARGET_NAME_IF_EXISTS:tern_serve>)
  # What a build lacks is known to these few alone.
  set(TERN_APP_VARIANTS serve/cmd_serve.c serve/store.c cmd_version.c hub/hub.c hub/pull.c)
  target_compile_definitions(tern_commands PRIVATE TERN_STATIC=0 TERN_SERVE=$<BOOL:${TERN_SERVE_FOUND}> TERN_PULL=$<BOOL:${TERN_PULL_FOUND}>)
  target_compile_definitions(tern_commands PRIVATE TERN_MODEL_DIR="${CMAKE_INSTALL_FULL_DATADIR}/tern/models")
  add_executable(tern ${TERN_APP_MAIN})
  target_link_libraries(tern PRIVATE tern_commands)
  include(cmake/alone.cmake)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
  add_custom_command(TARGET tern POST_BUILD
    COMMAND tern completion bash > ${PROJECT_BINARY_DIR}/tern.bash
    COMMAND tern completion zsh > ${PROJECT_BINARY_DIR}/tern.zsh
    COMMAND tern completion fish > ${PROJECT_BINARY_DIR}/tern.fish
    COMMAND tern help --man ${PROJECT_BINARY_DIR}/man VERBATIM)
endif()
