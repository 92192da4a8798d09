# One cmocka program for each tests/**/test_*.c; helpers that several share are tests/support/*.c.
if(NOT EMSCRIPTEN)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
file(GLOB TERN_TEST_SUPPORT CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.c)
if(CMAKE_CROSSCOMPILING) # tests of the command start it themselves
  find_program(TERN_EMULATOR NAMES ${CMAKE_CROSSCOMPILING_EMULATOR} REQUIRED)
endif()
add_library(tern_test_support STATIC ${TERN_TEST_SUPPORT})
target_link_libraries(tern_test_support PUBLIC tern_static PkgConfig::CMOCKA)
target_include_directories(tern_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(tern_test_support PUBLIC
  TERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TERN_BUILD_DIR="${PROJECT_BINARY_DIR}" TERN_EMULATOR="${TERN_EMULATOR}")
set_target_properties(tern_test_support PROPERTIES TERN_IS_TEST ON)
if(TARGET tern)
  add_dependencies(tern_test_support tern)
endif()

if(NOT DEFINED ENV{TERN_SHARED} AND NOT EXISTS ${PROJECT_SOURCE_DIR}/../shared)
  message(NOTICE "No golden files in ../shared or in TERN_SHARED: tests that compare with them will be skipped.")
endif()

if(EMSCRIPTEN)
  file(GLOB_RECURSE TERN_TESTS_FOUND CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
  tern_web_tests()
  return()
endif()
include(cmake/tests-gpu.cmake)

# Tests that run code of ours on several threads: what the tsan preset takes.
set(TERN_TESTS_THREADED test_api test_base test_generate test_goldens test_pool test_session test_training_rows)
file(GLOB_RECURSE TERN_TESTS_FOUND CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
if(NOT TERN_VULKAN)
  list(FILTER TERN_TESTS_FOUND EXCLUDE REGEX "/test_(vulkan[^/]*|gpu_simulated[^/]*|gpu_linear_ternary)\\.c$")
endif()
# What an emulated CPU would need many minutes for, and what holds there when the other tests do: commands started again
# and again, runs of training from end to end, whole models beyond the goldens, the simulated GPU (plain C).
set(TERN_TESTS_LONG "^test_(lora_commands|train|run|run_resume|finetune|gpu_simulated.*|gpu_utilisation|spirv|flips|\
generate|generate_steps|generation_steps|loader|tuning|compare|converted|perplexity|chat|run_sample|\
graph_gradients|gpu_gradient|tune_commands|tune_decode)$")
foreach(file ${TERN_TESTS_FOUND})
  get_filename_component(name ${file} NAME_WE)
  if(CMAKE_CROSSCOMPILING AND name MATCHES "${TERN_TESTS_LONG}")
    continue()
  endif()
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  set(labels ${folder})
  if(name IN_LIST TERN_TESTS_THREADED)
    list(APPEND labels threads)
  endif()
  tern_wanted(wanted ${labels})
  if(NOT wanted)
    continue()
  endif()
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE tern_test_support)
  # What takes time is in the library. At -O3, gcc 12 for ARM breaks off with an internal error on one of them.
  target_compile_options(${name} PRIVATE -O1)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${labels}" ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
  if(name MATCHES "${TERN_TESTS_LONG}") # first, so that none is left over at the end; CTest knows no times in a fresh folder
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
  tern_gpu_tests(${name} ${file} "${labels}")
endforeach()

if(TERN_TESTS_LABEL) # what follows has labels of its own
  return()
endif()

# The same tests on the simulated GPU (tests/support/spirv.h), which stops at races and accesses out of bounds.
if(TERN_VULKAN AND NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME test_gpu_rows_simulated COMMAND test_gpu_rows)
  set_tests_properties(test_gpu_rows_simulated PROPERTIES TIMEOUT 1200 LABELS backend
    ENVIRONMENT "${TERN_TEST_ENVIRONMENT};TERN_TEST_SIMULATE=16")
endif()

# Checks of the tree and of what was built, in shell.
function(tern_check name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS checks)
endfunction()
tern_check(check_includes ${PROJECT_SOURCE_DIR}/scripts/check-includes.sh ${PROJECT_SOURCE_DIR})
tern_check(check_includes_fails ${PROJECT_SOURCE_DIR}/tests/checks/includes-self-test.sh)
tern_check(check_text ${PROJECT_SOURCE_DIR}/scripts/check-text.sh ${PROJECT_SOURCE_DIR})
tern_check(check_text_fails ${PROJECT_SOURCE_DIR}/tests/checks/text-self-test.sh)
if(NOT TERN_SANITIZE)
  tern_check(check_symbols ${PROJECT_SOURCE_DIR}/tests/checks/symbols.sh
    ${CMAKE_NM} $<TARGET_FILE:tern_shared> $<TARGET_FILE:tern_static> ${PROJECT_SOURCE_DIR}/include)
endif()
if(NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  tern_check(check_symbols_fails ${PROJECT_SOURCE_DIR}/tests/checks/symbols-self-test.sh ${CMAKE_C_COMPILER})
  tern_check(check_install ${PROJECT_SOURCE_DIR}/tests/checks/install.sh
    ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()

# Each examples/NAME.c becomes example_NAME, which is run on the bundled model; against an installed library check_install does the same.
file(GLOB TERN_EXAMPLES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(file ${TERN_EXAMPLES})
  get_filename_component(name ${file} NAME_WE)
  add_executable(example_${name} ${file})
  target_link_libraries(example_${name} PRIVATE tern_shared)
  if(TERN_SANITIZE)
    target_link_options(example_${name} PRIVATE -fsanitize=${TERN_SANITIZE})
  endif()
  add_test(NAME example_${name} COMMAND example_${name} ${PROJECT_SOURCE_DIR}/models/stories.gguf)
  set_tests_properties(example_${name} PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT}"
    PASS_REGULAR_EXPRESSION "^Once upon a time[^\n]* [a-z]+")
endforeach()
