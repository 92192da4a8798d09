# `tern serve` and the library under it: src/serve over libmicrohttpd, which sets TERN_SERVE_FOUND.
set(TERN_SERVE_FOUND OFF)
if(NOT TERN_SERVE STREQUAL OFF)
  pkg_check_modules(MICROHTTPD QUIET IMPORTED_TARGET libmicrohttpd>=0.9.71)
  if(MICROHTTPD_FOUND)
    set(TERN_SERVE_FOUND ON)
  elseif(TERN_SERVE STREQUAL ON)
    message(FATAL_ERROR "No libmicrohttpd. Install it (Debian: libmicrohttpd-dev), or configure with -DTERN_SERVE=OFF to build without `tern serve`.")
  else()
    message(STATUS "serve: no libmicrohttpd (Debian: libmicrohttpd-dev): no `tern serve`")
  endif()
endif()
if(TERN_SERVE_FOUND)
  file(GLOB_RECURSE TERN_SERVE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/serve/*.c)
  file(GLOB TERN_SERVE_PAGE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/serve/* ${PROJECT_SOURCE_DIR}/web/serve/js/* ${PROJECT_SOURCE_DIR}/web/page/* ${PROJECT_SOURCE_DIR}/web/page/js/*)
  list(FILTER TERN_SERVE_PAGE INCLUDE REGEX "\\.(html|css|svg|js)$")
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/serve_page.c
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/serve_page.c
      -P ${PROJECT_SOURCE_DIR}/cmake/serve-page.cmake
    DEPENDS ${TERN_SERVE_PAGE} ${PROJECT_SOURCE_DIR}/cmake/serve-page.cmake VERBATIM)
  add_library(tern_serve STATIC EXCLUDE_FROM_ALL ${TERN_SERVE_SOURCES} ${PROJECT_BINARY_DIR}/serve_page.c)
  target_link_libraries(tern_serve PUBLIC tern_static PkgConfig::MICROHTTPD)
endif()
