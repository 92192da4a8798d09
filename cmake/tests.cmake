# One cmocka program for each folder of tests, made of its *.c: tests/backend/gpu gives test_gpu. Every TEST_GROUP line in
# them is a test of CTest, `gpu.rows`, which runs `test_gpu rows`. Helpers that several programs share are
# tests/support/*.c. The words in a group's second argument are its labels:
#   backends     once on each of TERN_TEST_BACKENDS, `infer.loader.cpu` and `infer.loader.vulkan`: `--backend NAME` says
#                which; `slow`, `threads` and `web` speak of the CPU, the next four of the others
#   devices      the same without the CPU
#   gpu          opens the GPU that the shaders of backend/gpu run on: on lavapipe (cmake/tests-gpu.cmake)
#   swiftshader  once more on SwiftShader
#   kernels      on SwiftShader instead of lavapipe, where there is one: kernels that lavapipe compiles for minutes
#   waits        once more with TERN_VULKAN_WAITS=1
#   long         minutes on such a driver: not in `make test`, but in `make test-all` (scripts/slow-tests.sh)
#   simulated    once more on the simulated GPU (tests/support/spirv.h), which stops at races and accesses out of bounds
#   slow         quick runs (TERN_TEST_QUICK), started first, and not on an emulated CPU: commands started again and
#                again, training from end to end, whole models beyond the goldens, the simulated GPU (plain C): what holds
#                there when the other tests do; scripts/slow-tests.sh runs them whole
#   shared       once more on the larger golden files of ../shared, `text.tokenizer.shared`; skipped without them
#   threads      runs code of ours on several threads: what the tsan preset takes
#   web          runs in WebAssembly too (cmake/tests-web.cmake): what computes and what reads files
#   arm64        runs on 64-bit ARM too: what NEON computes; also all `web` groups of cpu, ops and quant
# Nothing of it is built by default: the target `tests` builds it, without which a build needs no cmocka.
enable_testing()
add_custom_target(tests)
foreach(target tern tern_static tern_shared)
  if(TARGET ${target})
    add_dependencies(tests ${target})
  endif()
endforeach()
# Refusing a huge allocation is what the library must cope with, so the sanitizers must not abort on it. What the user has
# measured (tern tune) or compiled is out of sight.
set(TERN_TEST_ENVIRONMENT
  XDG_CACHE_HOME=${TERN_TEST_CACHE}
  ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
  TSAN_OPTIONS=allocator_may_return_null=1:halt_on_error=1
  UBSAN_OPTIONS=print_stacktrace=1)
if(TERN_SANITIZE OR CMAKE_CROSSCOMPILING)
  list(APPEND TERN_TEST_ENVIRONMENT TERN_TEST_QUICK=1 TERN_TEST_DEVICES_ONLY=1)
endif()
# Whether a test with these labels is wanted.
function(tern_wanted result)
  set(wanted OFF)
  if(TERN_TESTS_LABELS STREQUAL "")
    set(wanted ON)
  endif()
  foreach(label ${TERN_TESTS_LABELS})
    if(label IN_LIST ARGN)
      set(wanted ON)
    endif()
  endforeach()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# Runs a command on SwiftShader, which it looks for when the test runs.
set(TERN_ON_SWIFTSHADER ${PROJECT_SOURCE_DIR}/tests/checks/swiftshader.sh)
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
target_link_libraries(tern_test_support PUBLIC $<TARGET_NAME_IF_EXISTS:tern_commands> $<TARGET_NAME_IF_EXISTS:tern_hub> $<TARGET_NAME_IF_EXISTS:tern_serve> tern_static rsr_multipliers PkgConfig::CMOCKA)
target_include_directories(tern_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_BINARY_DIR}/groups)
# Only tests that include this header depend on where the checkout is: a compiler cache serves the others anywhere.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/groups/support/places.h @ONLY CONTENT "/* Folders of this build. */
#define TERN_SOURCE_DIR \"@PROJECT_SOURCE_DIR@\"
#define TERN_BUILD_DIR \"@PROJECT_BINARY_DIR@\"
#define TERN_EMULATOR \"@TERN_EMULATOR@\"
")
set_target_properties(tern_test_support PROPERTIES TERN_IS_TEST ON)
if(TARGET tern)
  add_dependencies(tern_test_support tern)
endif()

file(GLOB_RECURSE TERN_TESTS_FOUND CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
file(GLOB_RECURSE TERN_TEST_HELPERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.c)
list(FILTER TERN_TESTS_FOUND EXCLUDE REGEX "/node_modules/")
list(FILTER TERN_TEST_HELPERS EXCLUDE REGEX "/tests/(main\\.c|support/|fuzz/|interop/|releases/)|/test_[^/]*$")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TERN_TESTS_FOUND}) # their labels are read below

# The groups of a test file as a list of GROUP:LABEL:LABEL...
function(tern_test_groups file result)
  file(STRINGS ${file} lines REGEX "^TEST_GROUP\\(")
  set(groups)
  foreach(line ${lines})
    if(NOT line MATCHES "^TEST_GROUP\\(([a-z0-9_]+), \"([a-z0-9 ]*)\"")
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
  elseif(CMAKE_CROSSCOMPILING AND ("slow" IN_LIST labels OR ("gpu" IN_LIST labels AND NOT "arm64" IN_LIST labels)))
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

# The models of the golden files, from their seeds, with the files that are stored: what most tests of models open.
find_program(TERN_PYTHON python3)
set(goldens ${PROJECT_SOURCE_DIR}/tests/data/goldens)
set(TERN_GOLDENS ${PROJECT_BINARY_DIR}/goldens)
if(TERN_PYTHON)
  file(GLOB_RECURSE stored CONFIGURE_DEPENDS ${goldens}/*)
  list(FILTER stored EXCLUDE REGEX "/__pycache__/|/README.md$|/golden.py$|/vocabularies.py$")
  add_custom_command(OUTPUT ${TERN_GOLDENS}/made VERBATIM
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${TERN_GOLDENS}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${TERN_GOLDENS}
    COMMAND ${TERN_PYTHON} ${goldens}/weights.py ${TERN_GOLDENS}
    COMMAND ${CMAKE_COMMAND} -E touch ${TERN_GOLDENS}/made
    DEPENDS ${stored} ${PROJECT_SOURCE_DIR}/models/stories.gguf)
  add_custom_target(tern_goldens DEPENDS ${TERN_GOLDENS}/made)
else()
  add_custom_target(tern_goldens VERBATIM
    COMMAND ${CMAKE_COMMAND} -E echo "The tests need python3 (Debian: python3), which makes their models: install it and configure again."
    COMMAND ${CMAKE_COMMAND} -E false)
endif()
add_dependencies(tests tern_goldens)

# One test of CTest: a group as program and arguments say.
function(tern_test_entry name program arguments labels)
  if(EMSCRIPTEN AND "gpu" IN_LIST labels)
    add_test(NAME ${name} COMMAND ${TERN_ON_SWIFTSHADER} node $<TARGET_FILE:${program}> ${arguments})
  elseif(EMSCRIPTEN)
    add_test(NAME ${name} COMMAND node $<TARGET_FILE:${program}> ${arguments})
  else()
    add_test(NAME ${name} COMMAND ${program} ${arguments})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${labels}" ENVIRONMENT "${TERN_TEST_ENVIRONMENT}"
    SKIP_RETURN_CODE 77)
  if("slow" IN_LIST labels) # first, so that none is left over at the end; CTest knows no times in a fresh folder
    set_tests_properties(${name} PROPERTIES COST 10 ENVIRONMENT "${TERN_TEST_ENVIRONMENT};TERN_TEST_QUICK=1")
  endif()
  if(EMSCRIPTEN)
    tern_web_test_entry(${name} "${labels}")
  else()
    tern_gpu_test_entries(${name} ${program} "${arguments}" "${labels}")
  endif()
endfunction()

# All tests of CTest for a group, where this build wants them; sets result.
function(tern_test_entries result folder group labels)
  set(program test_${folder})
  if("web" IN_LIST labels AND folder MATCHES "^(cpu|ops|quant)$")
    list(APPEND labels arm64)
  endif()
  set(backends "")
  if("backends" IN_LIST labels)
    set(backends ${TERN_TEST_BACKENDS})
  elseif("devices" IN_LIST labels)
    set(backends ${TERN_TEST_BACKENDS})
    list(REMOVE_ITEM backends cpu)
  else()
    tern_test_group_wanted(wanted "${labels}")
    if(wanted)
      tern_test_entry(${folder}.${group} ${program} ${group} "${labels}")
    endif()
  endif()
  if("shared" IN_LIST labels AND NOT "gpu" IN_LIST labels AND NOT "devices" IN_LIST labels AND NOT EMSCRIPTEN
      AND NOT CMAKE_CROSSCOMPILING AND NOT TERN_SANITIZE AND TERN_TESTS_LABELS STREQUAL "")
    set(own ${labels})
    list(REMOVE_ITEM own backends long) # on GPUs
    tern_test_entry(${folder}.${group}.shared ${program} "--shared;${group}" "${own}")
  endif()
  list(REMOVE_ITEM labels backends devices)
  foreach(backend ${backends})
    set(own ${labels})
    if(backend STREQUAL cpu)
      list(REMOVE_ITEM own long swiftshader)
    else()
      list(REMOVE_ITEM own slow threads web)
      list(APPEND own gpu)
    endif()
    tern_test_group_wanted(here "${own}")
    if(here)
      tern_test_entry(${folder}.${group}.${backend} ${program} "--backend;${backend};${group}" "${own}")
      set(wanted ON)
    endif()
  endforeach()
  set(${result} ${wanted} PARENT_SCOPE)
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
      tern_test_entries(wanted ${folder} ${group} "${labels}")
      if(wanted)
        list(APPEND sources ${file})
        string(APPEND declared "extern const test_group test_group_${group};\n")
        string(APPEND listed "    &test_group_${group},\n")
      endif()
    endforeach()
  endforeach()
  if(NOT sources)
    return()
  endif()
  list(REMOVE_DUPLICATES sources)
  set(helpers ${TERN_TEST_HELPERS})
  list(FILTER helpers INCLUDE REGEX "^${path}/[^/]*$")
  set(list_file ${PROJECT_BINARY_DIR}/groups/${program}.c)
  file(CONFIGURE OUTPUT ${list_file} @ONLY CONTENT "#include \"support/test.h\"\n\n${declared}
const test_group *const test_groups[] = {\n${listed}    NULL,\n};\n")
  add_executable(${program} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/main.c ${list_file} ${sources} ${helpers})
  target_link_libraries(${program} PRIVATE tern_test_support)
  # What takes time is in the library. At -O3, gcc 12 for ARM breaks off with an internal error on one of them.
  target_compile_options(${program} PRIVATE -O1)
  set_target_properties(${program} PROPERTIES TERN_IS_TEST ON)
  add_dependencies(${program} tern_goldens)
  add_dependencies(tests ${program})
  if(EMSCRIPTEN)
    tern_web_test_program(${program})
  endif()
endfunction()

# What groups with the label `backends` run on: another backend is one more name here.
set(TERN_TEST_BACKENDS cpu)
if(TERN_VULKAN AND NOT EMSCRIPTEN)
  list(APPEND TERN_TEST_BACKENDS vulkan)
endif()
set(folders ${TERN_TESTS_FOUND})
list(TRANSFORM folders REPLACE "/[^/]*$" "")
list(REMOVE_DUPLICATES folders)
if(NOT TERN_VULKAN) # they need SPIR-V
  list(FILTER folders EXCLUDE REGEX "/backend/(vulkan|simulated)$")
endif()
if(NOT TARGET tern_commands)
  list(FILTER folders EXCLUDE REGEX "/apps$")
endif()
if(NOT TERN_CUDA_FOUND) # their program has the kernels
  list(FILTER folders EXCLUDE REGEX "/backend/cuda$")
endif()
if(NOT TARGET tern_serve)
  list(FILTER folders EXCLUDE REGEX "/serve$")
endif()
if(NOT TARGET tern_hub)
  list(FILTER folders EXCLUDE REGEX "/hub$")
endif()
foreach(folder ${folders})
  tern_test_program(${folder})
endforeach()
if(TARGET test_cuda)
  target_link_libraries(test_cuda PRIVATE tern_cuda_parts)
  add_dependencies(test_cuda tern_cuda_kernels)
endif()

if(TARGET test_base AND NOT EMSCRIPTEN) # what base.module opens
  string(REPEAT "0" 300 long)
  foreach(mark same other=0.0.9-0123456789ab unmarked long=${long})
    string(REGEX MATCH "^[a-z]*" name ${mark})
    add_library(test_module_${name} MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/base/modules/module.c)
    set_target_properties(test_module_${name} PROPERTIES PREFIX "" OUTPUT_NAME test-module-${name})
    if(name STREQUAL same)
      tern_mark_module(test_module_same)
    elseif(mark MATCHES "=(.*)")
      target_compile_definitions(test_module_${name} PRIVATE TEST_MARK="${CMAKE_MATCH_1}")
    endif()
    add_dependencies(test_base test_module_${name})
  endforeach()
endif()

if(NOT EMSCRIPTEN) # what the tests of tests/interop, under Node, ask of Tern
  add_executable(interop_peer EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/interop/peer.c)
  target_link_libraries(interop_peer PRIVATE tern_static)
  set_target_properties(interop_peer PROPERTIES TERN_IS_TEST ON)
  add_dependencies(tests interop_peer)
endif()

if(TERN_PYTHON AND NOT EMSCRIPTEN AND NOT CMAKE_CROSSCOMPILING) # what grammars of schemas allow, by jsonschema
  add_executable(schema_samples EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/data/schemas/samples.c)
  target_link_libraries(schema_samples PRIVATE tern_test_support)
  set_target_properties(schema_samples PROPERTIES TERN_IS_TEST ON)
  add_dependencies(tests schema_samples)
  add_test(NAME text.schemas_random COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/data/schemas/check.py
    $<TARGET_FILE:schema_samples>)
  set_tests_properties(text.schemas_random PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The static command in a chroot: where gcc has compiled for this machine, and on 64-bit ARM, once each.
if(TARGET tern_alone AND TERN_PYTHON AND CMAKE_C_COMPILER_ID STREQUAL GNU)
  add_dependencies(tests tern_alone tern)
  set(compared "")
  if(NOT CMAKE_CROSSCOMPILING)
    set(compared $<TARGET_FILE:tern>)
  endif()
  add_test(NAME check_static COMMAND ${PROJECT_SOURCE_DIR}/tests/checks/static.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR}
    ${TERN_PYTHON} "${compared}" ${CMAKE_CROSSCOMPILING_EMULATOR})
  set_tests_properties(check_static PROPERTIES TIMEOUT 600 LABELS checks)
endif()

if(TERN_TESTS_LABELS OR EMSCRIPTEN) # what follows has labels of its own
  return()
endif()

# tern pull against a server of this machine, in Python; with the sanitizers too.
if(TERN_PYTHON AND TERN_PULL_FOUND AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME hub_pull COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/hub/test_pull.py $<TARGET_FILE:tern>
    ${PROJECT_SOURCE_DIR}/models/stories.gguf)
  set_tests_properties(hub_pull PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
endif()

# Torrents among processes of this machine: swarms, web seeds, what is refused. Sanitizers of a program in C do not know
# the exceptions of a module.
if(TERN_PYTHON AND TERN_TORRENT_FOUND AND NOT TERN_SANITIZE)
  add_test(NAME hub_torrent COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/hub/test_torrent.py $<TARGET_FILE:tern>
    ${PROJECT_SOURCE_DIR}/models/stories.gguf)
  set_tests_properties(hub_torrent PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
  add_dependencies(tests tern_torrent)
endif()

# The module for NVIDIA GPUs, or what is in its place, in trees of the test's own.
if(TERN_PYTHON AND TARGET tern AND NOT CMAKE_CROSSCOMPILING AND NOT TERN_SANITIZE)
  add_test(NAME cuda_module COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/backend/cuda/test_module.py $<TARGET_FILE:tern>
    $<TARGET_FILE:tern_shared> ${PROJECT_SOURCE_DIR}/models/stories.gguf ${PROJECT_BINARY_DIR})
  set_tests_properties(cuda_module PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
endif()

# One model in several processes; mpirun of another place than the module's library would not start them.
if(TERN_PYTHON AND TERN_MPI_FOUND AND MPIEXEC_EXECUTABLE AND NOT TERN_SANITIZE)
  foreach(part results ends)
    add_test(NAME ranks_${part} COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_ranks.py ${part}
      ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf ${TERN_GOLDENS}/fixtures)
    add_test(NAME ranks_training_${part} COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_training.py ${part}
      ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf ${TERN_GOLDENS}/fixtures)
  endforeach()
  add_test(NAME ranks_network COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_network.py ${MPIEXEC_EXECUTABLE}
    $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf ${TERN_GOLDENS}/fixtures/bitnet-train
    $<IF:$<BOOL:${TERN_TORRENT_FOUND}>,ON,OFF>)
  if(TERN_SERVE_FOUND)
    add_test(NAME ranks_serve COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_serve.py ${MPIEXEC_EXECUTABLE}
      $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf)
    set_tests_properties(ranks_serve PROPERTIES TIMEOUT 900 LABELS checks RUN_SERIAL ON ENVIRONMENT
      "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
  endif()
  if(TERN_VULKAN AND TERN_LAVAPIPE)
    add_test(NAME ranks_gpu COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_gpu.py ${MPIEXEC_EXECUTABLE}
      $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf)
    tern_gpu_properties(ranks_gpu "checks;gpu" "${TERN_LAVAPIPE}")
    add_test(NAME ranks_gpu_training COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/ranks/test_gpu_training.py
      ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:tern> ${TERN_GOLDENS}/fixtures/bitnet-train)
    tern_gpu_properties(ranks_gpu_training "checks;gpu;long" "${TERN_LAVAPIPE}")
  endif()
  set_tests_properties(ranks_results ranks_ends ranks_training_results ranks_training_ends ranks_network PROPERTIES
    TIMEOUT 900 LABELS checks SKIP_RETURN_CODE 77 ENVIRONMENT "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
  # These measure how soon all end after a rank is broken or a line is cut.
  set_tests_properties(ranks_ends ranks_training_ends ranks_network PROPERTIES RUN_SERIAL ON)
  set_tests_properties(ranks_results ranks_training_results PROPERTIES COST 100) # long ones begin early
  set_property(TEST ranks_network APPEND PROPERTY LABELS long)
  add_dependencies(tests tern_mpi)
endif()

# Models in parts, cut by a program of their own, in every command that opens one.
if(TERN_PYTHON AND TARGET tern AND NOT CMAKE_CROSSCOMPILING AND NOT TERN_SANITIZE)
  add_test(NAME model_parts COMMAND ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/model/test_parts.py $<TARGET_FILE:tern>
    ${PROJECT_SOURCE_DIR}/models/stories.gguf ${TERN_PULL_FOUND})
  set_tests_properties(model_parts PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT "${TERN_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
endif()

# Checks of the tree and of what was built, in shell: no compiler makes a difference to them.
function(tern_check name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS checks ENVIRONMENT XDG_CACHE_HOME=${TERN_TEST_CACHE})
endfunction()
if(NOT TERN_SANITIZE)
  set(checks ${PROJECT_SOURCE_DIR}/tests/checks)
  tern_check(check_tools ${checks}/tools.sh ${PROJECT_SOURCE_DIR} "${TERN_LAVAPIPE}")
  tern_check(check_includes ${PROJECT_SOURCE_DIR}/scripts/check-includes.sh ${PROJECT_SOURCE_DIR})
  tern_check(check_includes_fails ${checks}/includes-self-test.sh)
  tern_check(check_recompiles ${PROJECT_SOURCE_DIR}/scripts/check-recompiles.sh ${PROJECT_SOURCE_DIR})
  tern_check(check_recompiles_fails ${checks}/recompiles-self-test.sh)
  tern_check(check_text ${PROJECT_SOURCE_DIR}/scripts/check-text.sh ${PROJECT_SOURCE_DIR})
  tern_check(check_text_fails ${checks}/text-self-test.sh)
  tern_check(check_source_property ${checks}/source-property.sh ${PROJECT_SOURCE_DIR})
  if(PROJECT_BINARY_DIR STREQUAL "${PROJECT_SOURCE_DIR}/build/release")
    tern_check(check_slow_tests ${PROJECT_SOURCE_DIR}/scripts/slow-tests.sh --missing)
  endif()
  if(TERN_PYTHON)
    tern_check(check_baseline ${checks}/baseline.sh ${PROJECT_SOURCE_DIR})
    tern_check(check_fuzz_keys ${TERN_PYTHON} ${checks}/fuzz-keys.py ${PROJECT_SOURCE_DIR})
    tern_check(check_fuzz_seeds ${checks}/fuzz-seeds.sh ${PROJECT_SOURCE_DIR})
    # The scope headers joins when it is free of faults.
    tern_check(check_sentences ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/check-sentences.py readme guides headers docs)
    tern_check(check_sentences_fails ${TERN_PYTHON} ${checks}/sentences-self-test.py)
    tern_check(check_bench_page ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/bench-page.py --check)
    tern_check(check_bench_page_fails ${TERN_PYTHON} ${checks}/bench-page-self-test.py)
    tern_check(check_choose ${TERN_PYTHON} ${checks}/choose-self-test.py)
  endif()
  if(TERN_PYTHON AND NOT CMAKE_CROSSCOMPILING)
    set(docs ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/docs/check.py)
    tern_check(check_docs_links ${docs} links ${PROJECT_SOURCE_DIR})
    tern_check(check_docs_unrun ${docs} unrun ${PROJECT_SOURCE_DIR})
    tern_check(check_docs_release ${docs} release ${PROJECT_SOURCE_DIR})
    tern_check(check_docs_flags ${docs} flags ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tern>)
    tern_check(check_docs_fails ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/docs/self_test.py $<TARGET_FILE:tern>)
    tern_check(check_sentences_help ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/check-sentences.py
      --tern $<TARGET_FILE:tern> help)
    tern_check(check_completion ${checks}/completion.sh $<TARGET_FILE:tern>)
    tern_check(check_recording ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/record-chat.py
      --check ${PROJECT_SOURCE_DIR}/docs/pictures/chat.svg --tern $<TARGET_FILE:tern>)
    tern_check(check_peers ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/bench/test_peers.py
      ${PROJECT_SOURCE_DIR}/bench/peers/peers.py $<TARGET_FILE:tern> ${PROJECT_SOURCE_DIR}/models/stories.gguf)
    # The same pages as PAGES of check.py; those without a block to run are no test.
    file(GLOB pages CONFIGURE_DEPENDS *.md docs/*.md docs/guides/*.md */README.md)
    file(GLOB_RECURSE deeper CONFIGURE_DEPENDS docs/internals/*.md docs/reference/*.md)
    foreach(page ${pages} ${deeper})
      file(STRINGS ${page} runs REGEX "^```(sh|sh background|python)$")
      if(runs)
        file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${page})
        string(REGEX REPLACE "^docs/|[.]md$" "" name ${name})
        string(REPLACE "/" "_" name ${name})
        tern_check(check_page_${name} ${docs} run ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tern> ${page})
      endif()
    endforeach()
    tern_check(check_releases ${TERN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/releases/check.py ${PROJECT_SOURCE_DIR}
      ${CMAKE_C_COMPILER} $<TARGET_FILE:tern_shared> ${PROJECT_SOURCE_DIR}/models/stories.gguf)
    set(python ${PROJECT_SOURCE_DIR}/tests/python)
    tern_check(python_layout ${TERN_PYTHON} ${python}/test_layout.py ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
    tern_check(python_types ${python}/types.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    tern_check(python_package ${TERN_PYTHON} ${python}/test_tern.py)
    set_tests_properties(python_layout python_package PROPERTIES ENVIRONMENT
      "XDG_CACHE_HOME=${TERN_TEST_CACHE};TERN_SOURCE=${PROJECT_SOURCE_DIR};TERN_LIBRARY=$<TARGET_FILE:tern_shared>;TERN_PROGRAM=$<TARGET_FILE:tern>;PYTHONDONTWRITEBYTECODE=1")
  endif()
  # cpack builds all that there is: once is enough
  if(TARGET tern AND CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CROSSCOMPILING)
    tern_check(check_packages ${checks}/packages.sh ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
    set_tests_properties(check_packages PROPERTIES RUN_SERIAL ON)
  endif()
  tern_check(check_symbols ${checks}/symbols.sh
    ${CMAKE_NM} $<TARGET_FILE:tern_shared> $<TARGET_FILE:tern_static> ${PROJECT_SOURCE_DIR}/include)
  tern_check(check_symbols_fails ${checks}/symbols-self-test.sh ${CMAKE_C_COMPILER})
  tern_check(check_install ${checks}/install.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()

# Each examples/NAME.c becomes example_NAME, which is run on the bundled model; against an installed library
# check_install does the same.
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
