# Tests that open a GPU run on drivers that are software, so that they say the same on every machine: on Mesa's
# lavapipe, and some once more, as NAME.swiftshader, on SwiftShader (which Chromium brings; slower, so with fewer cases
# of each kind): the Vulkan backend itself and the text of whole models. The kernels' own tests run on it as WGSL, in a
# WebAssembly build (cmake/tests-web.cmake); groups with the label `kernels` natively too, instead of on lavapipe, which
# compiles them for several times as long. Without lavapipe tests take what the Vulkan loader finds, which may be
# nothing: then they are skipped with a message, under CI=true failed (as check_tools is). -DTERN_TEST_ICD=FILE runs
# them on the driver of this file alone, with all cases of each kind; empty, on what the loader finds.
if(NOT DEFINED TERN_TEST_ICD AND NOT CMAKE_CROSSCOMPILING)
  find_file(TERN_LAVAPIPE NAMES lvp_icd.${CMAKE_SYSTEM_PROCESSOR}.json lvp_icd.json
    PATHS /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d NO_DEFAULT_PATH)
endif()
if(NOT CMAKE_CROSSCOMPILING AND NOT TERN_SANITIZE) # those run none of these groups
  find_file(TERN_SWIFTSHADER NAMES vk_swiftshader_icd.json PATHS /usr/lib/chromium /opt/google/chrome NO_DEFAULT_PATH)
endif()

# Where the layers that check every call of the Vulkan API are installed, tests run under them that make each kind of
# buffer, graph and call. The others make the same calls with other kernels, whose SPIR-V spirv-val checks (tools/wgsl).
find_file(TERN_VALIDATION_LAYER NAMES VkLayer_khronos_validation.json
  PATHS /usr/share/vulkan/explicit_layer.d /usr/local/share/vulkan/explicit_layer.d /etc/vulkan/explicit_layer.d NO_DEFAULT_PATH)
set(TERN_TESTS_VALIDATED "^vulkan\\.|^gpu\\.(rows|sample|linear_ternary|update)$|same_text$|graph\\.adapters$|graph_gpu")

# The properties of a GPU test on one driver ("": whichever there is). Such a driver starts a thread for each core, but
# nearly all of the time is spent in one, which compiles.
function(tern_gpu_properties test labels icd)
  set(environment ${TERN_TEST_ENVIRONMENT}) # an emulated CPU has no driver, which is then no failure of CI
  if(CMAKE_CROSSCOMPILING)
    list(APPEND environment CI=)
  endif()
  if(icd)
    list(APPEND environment VK_ICD_FILENAMES=${icd} VK_DRIVER_FILES=${icd})
    if(TERN_SANITIZE) # stays loaded: what a driver keeps would count as leaked once nothing of it is in memory
      file(READ ${icd} description)
      string(JSON library GET "${description}" ICD library_path)
      list(APPEND environment LD_PRELOAD=${library})
    endif()
  endif()
  if(icd AND (icd STREQUAL TERN_LAVAPIPE OR icd STREQUAL TERN_SWIFTSHADER))
    list(APPEND environment TERN_TEST_QUICK=1) # a driver in software takes seconds to compile each kernel
    # With subgroups of 4 a third less than with those of 8 that a CPU with AVX2 gives; these have them, for kernels of 8.
    if(NOT test MATCHES "^vulkan\\.|^gpu\\.(linear_ternary|rows|sample)$|same_text$|goldens_gpu\\.vulkan$")
      list(APPEND environment LP_NATIVE_VECTOR_WIDTH=128)
    endif()
  endif()
  if(icd AND icd STREQUAL TERN_LAVAPIPE AND TERN_VALIDATION_LAYER AND NOT TERN_SANITIZE AND test MATCHES "${TERN_TESTS_VALIDATED}")
    list(APPEND environment TERN_VULKAN_VALIDATION=1)
  endif()
  if("swiftshader" IN_LIST labels)
    # With a scratch folder of its own: the same program may run on lavapipe at the same time.
    list(APPEND environment TERN_TEST_QUICK=1 TERN_TEST_DEVICES_ONLY=1 TERN_TEST_SCRATCH=-swiftshader)
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT 1800 LABELS "${labels}" ENVIRONMENT "${environment}" COST 20)
endfunction()

# Gives the test of a group that opens a GPU its driver, and adds those that run it once more elsewhere.
function(tern_gpu_test_entries name program arguments labels)
  if("simulated" IN_LIST labels AND TERN_VULKAN AND NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME ${name}.simulated COMMAND ${program} ${arguments})
    set_tests_properties(${name}.simulated PROPERTIES TIMEOUT 1200 LABELS simulated
      ENVIRONMENT "${TERN_TEST_ENVIRONMENT};TERN_TEST_SIMULATE=16;TERN_TEST_SCRATCH=-simulated")
  endif()
  if(NOT TERN_VULKAN OR NOT "gpu" IN_LIST labels)
    return()
  endif()
  set(second "${labels}")
  list(REMOVE_ITEM labels swiftshader simulated waits)
  if(DEFINED TERN_TEST_ICD)
    tern_gpu_properties(${name} "${labels}" "${TERN_TEST_ICD}")
    return()
  endif()
  if("kernels" IN_LIST labels AND TERN_LAVAPIPE AND TERN_SWIFTSHADER)
    tern_gpu_properties(${name} "${labels}" "${TERN_SWIFTSHADER}")
  else()
    tern_gpu_properties(${name} "${labels}" "${TERN_LAVAPIPE}")
  endif()
  if("waits" IN_LIST second)
    add_test(NAME ${name}.waits COMMAND ${program} ${arguments})
    tern_gpu_properties(${name}.waits "${labels}" "${TERN_LAVAPIPE}")
    set_property(TEST ${name}.waits APPEND PROPERTY ENVIRONMENT TERN_VULKAN_WAITS=1)
  endif()
  if("swiftshader" IN_LIST second AND NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME ${name}.swiftshader COMMAND ${TERN_ON_SWIFTSHADER} $<TARGET_FILE:${program}> ${arguments})
    tern_gpu_properties(${name}.swiftshader "${second};long" "")
    set_tests_properties(${name}.swiftshader PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
