# One cmocka program for each folder of tests, made of its test_*.c: tests/backend/gpu gives test_gpu. Every TEST_GROUP line in them is a test of CTest,
# `gpu.rows`, which runs `test_gpu rows`. Helpers that several share are tests/support/*.c. The words in a group's second argument are its labels:
#   gpu          opens a GPU: runs on lavapipe (cmake/tests-gpu.cmake)
#   swiftshader  once more on SwiftShader
#   long         minutes on such a driver
#   simulated    once more on the simulated GPU (tests/support/spirv.h), which stops at races and accesses out of bounds
#   slow         started first, and not on an emulated CPU: commands started again and again, runs of training from end to end, whole models
#                beyond the goldens, the simulated GPU (plain C): what holds there when the other tests do
#   threads      runs code of ours on several threads: what the tsan preset takes
#   web          runs in WebAssembly too (cmake/tests-web.cmake)
# Nothing of it is built by default: the target `tests` builds it, without which a build needs no cmocka.
enable_testing()
add_custom_target(tests)
foreach(target tern tern_static tern_shared)
  if(TARGET ${target})
    add_dependencies(tests ${target})
  endif()
endforeach()
# Refusing a huge allocation is what the library must cope with, so the sanitizers must not abort on it.
set(TERN_TEST_ENVIRONMENT
  ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
  TSAN_OPTIONS=allocator_may_return_null=1:halt_on_error=1
  UBSAN_OPTIONS=print_stacktrace=1)
if(TERN_SANITIZE OR CMAKE_CROSSCOMPILING)
  list(APPEND TERN_TEST_ENVIRONMENT TERN_TEST_QUICK=1 TERN_TEST_DEVICES_ONLY=1)
endif()
# Whether a test with these labels is wanted.
function(tern_wanted result)
  set(wanted OFF)
  if(TERN_TESTS_LABEL STREQUAL "" OR TERN_TESTS_LABEL IN_LIST ARGN)
    set(wanted ON)
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()
if(EMSCRIPTEN)
  include(cmake/tests-web.cmake)
else()
  include(cmake/tests-gpu.cmake)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()
include(cmake/fuzz.cmake)
if(NOT TARGET PkgConfig::CMOCKA)
  add_custom_target(tests_without_cmocka VERBATIM
    COMMAND ${CMAKE_COMMAND} -E echo "The tests need cmocka (Debian: libcmocka-dev): install it and configure again."
    COMMAND ${CMAKE_COMMAND} -E false)
  add_dependencies(tests tests_without_cmocka)
  return()
endif()

file(GLOB TERN_TEST_SUPPORT CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.c)
if(CMAKE_CROSSCOMPILING) # tests of the command start it themselves
  find_program(TERN_EMULATOR NAMES ${CMAKE_CROSSCOMPILING_EMULATOR} REQUIRED)
endif()
add_library(tern_test_support STATIC EXCLUDE_FROM_ALL ${TERN_TEST_SUPPORT})
target_link_libraries(tern_test_support PUBLIC tern_static rsr_multipliers PkgConfig::CMOCKA)
target_include_directories(tern_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(tern_test_support PUBLIC
  TERN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TERN_BUILD_DIR="${PROJECT_BINARY_DIR}" TERN_EMULATOR="${TERN_EMULATOR}")
set_target_properties(tern_test_support PROPERTIES TERN_IS_TEST ON)
if(TARGET tern)
  add_dependencies(tern_test_support tern)
endif()

file(GLOB_RECURSE TERN_TESTS_FOUND CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TERN_TESTS_FOUND}) # their labels are read below

# The groups of a test file as a list of GROUP:LABEL:LABEL...
function(tern_test_groups file result)
  file(STRINGS ${file} lines REGEX "^TEST_GROUP\\(")
  set(groups)
  foreach(line ${lines})
    if(NOT line MATCHES "^TEST_GROUP\\(([a-z0-9_]+), \"([a-z ]*)\"")
      message(FATAL_ERROR "${file}: expected TEST_GROUP(name, \"labels\", ... on one line, found ${line}")
    endif()
    string(REPLACE " " ":" labels "${CMAKE_MATCH_2}")
    list(APPEND groups "${CMAKE_MATCH_1}:${labels}")
  endforeach()
  if(NOT groups)
    message(FATAL_ERROR "${file} has no TEST_GROUP")
  endif()
  set(${result} ${groups} PARENT_SCOPE)
endfunction()

# Whether this build has a group with these labels.
function(tern_test_group_wanted result labels)
  tern_wanted(wanted ${labels})
  if(EMSCRIPTEN)
    tern_web_group_wanted(here "${labels}")
  elseif(CMAKE_CROSSCOMPILING AND "slow" IN_LIST labels)
    set(here OFF)
  else()
    set(here ON)
  endif()
  if(wanted AND here)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# The test of CTest for one group.
function(tern_test_entry program folder group labels)
  set(name ${folder}.${group})
  if(EMSCRIPTEN)
    add_test(NAME ${name} COMMAND node $<TARGET_FILE:${program}> ${group})
  else()
    add_test(NAME ${name} COMMAND ${program} ${group})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${labels}" ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
  if("slow" IN_LIST labels) # first, so that none is left over at the end; CTest knows no times in a fresh folder
    set_tests_properties(${name} PROPERTIES COST 10)
  endif()
  if(EMSCRIPTEN)
    tern_web_test_entry(${name} "${labels}")
  else()
    tern_gpu_test_entries(${name} ${program} ${group} "${labels}")
  endif()
endfunction()

# The program of a folder, of those of its files that have a group which is wanted.
function(tern_test_program path)
  get_filename_component(folder ${path} NAME)
  set(program test_${folder})
  set(files ${TERN_TESTS_FOUND})
  list(FILTER files INCLUDE REGEX "^${path}/[^/]*$")
  set(sources)
  set(declared "")
  set(listed "")
  foreach(file ${files})
    tern_test_groups(${file} groups)
    foreach(group ${groups})
      string(REPLACE ":" ";" labels ${group})
      list(POP_FRONT labels group)
      list(REMOVE_ITEM labels "")
      tern_test_group_wanted(wanted "${labels}")
      if(wanted)
        list(APPEND sources ${file})
        string(APPEND declared "extern const test_group test_group_${group};\n")
        string(APPEND listed "    &test_group_${group},\n")
        tern_test_entry(${program} ${folder} ${group} "${labels}")
      endif()
    endforeach()
  endforeach()
  if(NOT sources)
    return()
  endif()
  list(REMOVE_DUPLICATES sources)
  set(list_file ${PROJECT_BINARY_DIR}/groups/${program}.c)
  file(CONFIGURE OUTPUT ${list_file} @ONLY CONTENT "#include \"support/test.h\"\n\n${declared}
const test_group *const test_groups[] = {\n${listed}    NULL,\n};\n")
  add_executable(${program} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/main.c ${list_file} ${sources})
  target_link_libraries(${program} PRIVATE tern_test_support)
  # What takes time is in the library. At -O3, gcc 12 for ARM breaks off with an internal error on one of them.
  target_compile_options(${program} PRIVATE -O1)
  set_target_properties(${program} PROPERTIES TERN_IS_TEST ON)
  add_dependencies(tests ${program})
  if(EMSCRIPTEN)
    tern_web_test_program(${program})
  endif()
endfunction()

set(folders ${TERN_TESTS_FOUND})
list(TRANSFORM folders REPLACE "/[^/]*$" "")
list(REMOVE_DUPLICATES folders)
if(NOT TERN_VULKAN) # they need SPIR-V
  list(FILTER folders EXCLUDE REGEX "/backend/(vulkan|simulated)$")
endif()
foreach(folder ${folders})
  tern_test_program(${folder})
endforeach()

if(TERN_TESTS_LABEL OR EMSCRIPTEN) # what follows has labels of its own
  return()
endif()

# Checks of the tree and of what was built, in shell.
function(tern_check name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS checks)
endfunction()
tern_check(check_includes ${PROJECT_SOURCE_DIR}/scripts/check-includes.sh ${PROJECT_SOURCE_DIR})
if(NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  tern_check(check_tools ${PROJECT_SOURCE_DIR}/tests/checks/tools.sh ${PROJECT_SOURCE_DIR} "${TERN_LAVAPIPE}" "${TERN_SWIFTSHADER}")
endif()
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
  add_executable(example_${name} EXCLUDE_FROM_ALL ${file})
  add_dependencies(tests example_${name})
  target_link_libraries(example_${name} PRIVATE tern_shared)
  if(TERN_SANITIZE)
    target_link_options(example_${name} PRIVATE -fsanitize=${TERN_SANITIZE})
  endif()
  add_test(NAME example_${name} COMMAND example_${name} ${PROJECT_SOURCE_DIR}/models/stories.gguf)
  set_tests_properties(example_${name} PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT}"
    PASS_REGULAR_EXPRESSION "^Once upon a time[^\n]* [a-z]+")
endforeach()
