# Fuzzers: each tests/fuzz/fuzz_NAME.c is a part of the program `replay`, which runs the files of tests/fuzz/corpus/NAME
# as the test replay_NAME, and, with TERN_FUZZ=ON, fuzz_NAME under libFuzzer, which scripts/fuzz.sh runs; ctest does so for
# TERN_FUZZ_SECONDS.
set(TERN_FUZZ_SECONDS 2 CACHE STRING "How long ctest runs each fuzzer")
if(TERN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT TERN_SANITIZE)
    message(FATAL_ERROR "TERN_FUZZ needs clang and TERN_SANITIZE (address,undefined)")
  endif()
  target_compile_options(tern_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()


# A fuzzer's program: its own file and what else makes it run.
function(tern_fuzz_program program)
  add_executable(${program} EXCLUDE_FROM_ALL ${ARGN})
  add_dependencies(tests ${program})
  target_link_libraries(${program} PRIVATE tern_static $<TARGET_NAME_IF_EXISTS:tern_commands>)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(EMSCRIPTEN)
    tern_web_test_options(${program})
  endif()
endfunction()

set(TERN_FUZZ_DIR ${PROJECT_SOURCE_DIR}/tests/fuzz)
file(GLOB TERN_FUZZERS CONFIGURE_DEPENDS ${TERN_FUZZ_DIR}/fuzz_*.c)
if(NOT TARGET tern_commands) # of which these are the command's
  list(REMOVE_ITEM TERN_FUZZERS ${TERN_FUZZ_DIR}/fuzz_package.c ${TERN_FUZZ_DIR}/fuzz_eval.c
       ${TERN_FUZZ_DIR}/fuzz_kl_base.c)
endif()
if(NOT TARGET tern_serve)
  list(REMOVE_ITEM TERN_FUZZERS ${TERN_FUZZ_DIR}/fuzz_serve.c)
endif()
if(NOT TARGET tern_hub)
  list(REMOVE_ITEM TERN_FUZZERS ${TERN_FUZZ_DIR}/fuzz_hub.c)
endif()
tern_wanted(replayed replay)
set(sources ${TERN_FUZZ_DIR}/replay.c)
set(declared "")
set(listed "")
foreach(file ${TERN_FUZZERS})
  get_filename_component(fuzzer ${file} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name ${fuzzer})
  set(corpus ${TERN_FUZZ_DIR}/corpus/${name})
  if(replayed)
    set(renamed ${PROJECT_BINARY_DIR}/replays/${name}.c)
    file(CONFIGURE OUTPUT ${renamed} @ONLY
      CONTENT "#define LLVMFuzzerTestOneInput replay_${name}\n#include \"fuzz/${fuzzer}.c\"\n")
    list(APPEND sources ${renamed})
    string(APPEND declared "int replay_${name}(const uint8_t *data, size_t size);\n")
    string(APPEND listed "    {\"${name}\", replay_${name}},\n")
    add_test(NAME replay_${name} COMMAND replay ${name} ${corpus})
    set_tests_properties(replay_${name} PROPERTIES TIMEOUT 600 LABELS replay ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
  endif()
  if(TERN_FUZZ)
    tern_fuzz_program(${fuzzer} ${file})
    target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${fuzzer}
      COMMAND ${PROJECT_SOURCE_DIR}/scripts/fuzz.sh --build ${PROJECT_BINARY_DIR} --seconds ${TERN_FUZZ_SECONDS}
        --seed 1 ${name})
    set_tests_properties(${fuzzer} PROPERTIES LABELS fuzz ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
  endif()
endforeach()
if(replayed)
  set(list_file ${PROJECT_BINARY_DIR}/replays/list.c)
  file(CONFIGURE OUTPUT ${list_file} @ONLY CONTENT "#include \"fuzz/fuzz.h\"\n\n${declared}
const fuzz_replay fuzz_replays[] = {\n${listed}    {NULL, NULL},\n};\n")
  tern_fuzz_program(replay ${sources} ${list_file})
endif()
