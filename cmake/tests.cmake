# One cmocka program for each tests/**/test_*.c; helpers that several share are tests/support/*.c.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
file(GLOB TERN_TEST_SUPPORT CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.c)
add_library(tern_test_support STATIC ${TERN_TEST_SUPPORT})
target_link_libraries(tern_test_support PUBLIC tern_static PkgConfig::CMOCKA)
target_include_directories(tern_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(tern_test_support PUBLIC
  TERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TERN_BUILD_DIR="${PROJECT_BINARY_DIR}")

file(GLOB_RECURSE TERN_TESTS_FOUND CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
foreach(file ${TERN_TESTS_FOUND})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE tern_test_support)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endforeach()
