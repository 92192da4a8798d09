# Tests that open a GPU run on drivers that are software, so that they say the same on every machine: on Mesa's lavapipe, and once more, as
# NAME_swiftshader, on SwiftShader (which Chromium brings; slower, so with fewer cases of each kind). Without lavapipe they take what the Vulkan loader finds, which may be nothing: then
# they are skipped with a message. -DTERN_TEST_ICD=FILE runs them on the driver of this file alone; empty, on what the loader finds.
if(NOT DEFINED TERN_TEST_ICD AND NOT CMAKE_CROSSCOMPILING)
  find_file(TERN_LAVAPIPE NAMES lvp_icd.${CMAKE_SYSTEM_PROCESSOR}.json lvp_icd.json
    PATHS /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d NO_DEFAULT_PATH)
  find_file(TERN_SWIFTSHADER NAMES vk_swiftshader_icd.json PATHS /usr/lib/chromium /opt/google/chrome NO_DEFAULT_PATH)
  foreach(driver LAVAPIPE SWIFTSHADER)
    if(TERN_VULKAN AND NOT TERN_${driver} AND "$ENV{CI}" STREQUAL "true")
      message(FATAL_ERROR "${driver} was not found: scripts/install-deps.sh --ci installs mesa-vulkan-drivers and chromium")
    endif()
  endforeach()
endif()

# Not on SwiftShader again: the kernels' own tests, which a browser's WGSL runs on it (TERN_WEB_GPU_TESTS); natively it has them in whole models.
set(TERN_TESTS_ONE_DRIVER "^test_(commands|gpu_(attention|varlen_attention|dense|gradient|linear_ternary|rope|rows|sample|training_rows|update))$")

# The properties of a GPU test on one driver ("": whichever there is). Such a driver starts a thread for each core, but nearly all
# of the time is spent in one, which compiles.
function(tern_gpu_properties test labels icd)
  # Compiled pipelines stay out of the user's cache; an emulated CPU has no driver, which is then no failure of CI.
  set(environment ${TERN_TEST_ENVIRONMENT} XDG_CACHE_HOME=${TERN_TEST_CACHE})
  if(CMAKE_CROSSCOMPILING)
    list(APPEND environment CI=)
  endif()
  if(icd)
    list(APPEND environment VK_ICD_FILENAMES=${icd} VK_DRIVER_FILES=${icd})
  endif()
  if("swiftshader" IN_LIST labels)
    # With a scratch folder of its own: the same program may run on lavapipe at the same time.
    list(APPEND environment TERN_TEST_QUICK=1 TERN_TEST_DEVICES_ONLY=1 TERN_TEST_SCRATCH=-swiftshader)
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT 1800 LABELS "${labels}" ENVIRONMENT "${environment}" COST 20)
endfunction()

# Where a test program opens a GPU, gives its test the driver, and adds the second one.
function(tern_gpu_tests name file labels)
  file(STRINGS ${file} uses REGEX "test_gpu_(backend|engine)|test_pair_open|tern_vulkan_open|\"vulkan\"" LIMIT_COUNT 1)
  if(NOT uses OR NOT TERN_VULKAN)
    return()
  endif()
  list(APPEND labels gpu)
  # What starts a process for each case, or generates and trains at length: minutes on SwiftShader, which compiles every
  # kernel again in each process, and with sanitizers, which see nothing of the driver.
  if(name MATCHES "^test_(commands|generate|generation|loader|models|session|lora|run|trainer|trainer_goldens)_vulkan$")
    list(APPEND labels long)
  endif()
  if(DEFINED TERN_TEST_ICD)
    tern_gpu_properties(${name} "${labels}" "${TERN_TEST_ICD}")
    return()
  endif()
  tern_gpu_properties(${name} "${labels}" "${TERN_LAVAPIPE}")
  if(TERN_SWIFTSHADER AND NOT TERN_SANITIZE AND NOT CMAKE_CROSSCOMPILING AND NOT "long" IN_LIST labels
     AND NOT name MATCHES "${TERN_TESTS_ONE_DRIVER}")
    add_test(NAME ${name}_swiftshader COMMAND ${name})
    tern_gpu_properties(${name}_swiftshader "${labels};swiftshader" "${TERN_SWIFTSHADER}")
  endif()
endfunction()
