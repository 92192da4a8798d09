# The tests that run in WebAssembly too, under Node, which reads the files for them: what computes, and what reads untrusted bytes with a
# size_t of 32 bits, among them all that replay what fuzzers have found. Left out: what starts processes, needs Vulkan, opens more threads
# one after the other than stand ready (they come back in turns of the event loop, which a test has none of), or would take minutes.
set(TERN_WEB_TESTS "^test_(base|cpu|map|[a-z_]+_kernels|op_case|gradient_ops|training_rows|update_ops|gguf|gguf_write|json|safetensors|\
encoding|round_trip|rsr|ternarise|bpe_train|chat_template|nfc|text|tokenizer|tokenizer_gguf|sampler|stop|draft|generate|generation_steps|\
session|goldens|loader|lora|open|adapter|exact_head)$" CACHE STRING "Which tests a WebAssembly build has")
# With a GPU (not with threads, which Asyncify has not been tried with): Dawn of web/node_modules on SwiftShader.
set(TERN_WEB_GPU_TESTS "^test_(gpu_(attention|varlen_attention|dense|gradient|linear_ternary|rope|rows|sample|training_rows|update))$"
  CACHE STRING "Which tests a WebAssembly build runs on a GPU; whole models (goldens_vulkan, generate_vulkan) take long on SwiftShader")

function(tern_web_test_options name)
  target_link_options(${name} PRIVATE -O1 -g0 -sNODERAWFS=1 -sENVIRONMENT=node,worker -sEXIT_RUNTIME=1 -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=4MB -sASSERTIONS=0 --pre-js ${PROJECT_SOURCE_DIR}/tests/support/web.js)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/web.js)
  if(TERN_WEB_THREADS) # enough for the largest pool of a test, ready before main begins
    target_link_options(${name} PRIVATE -sPTHREAD_POOL_SIZE=16 -Wno-pthreads-mem-growth)
  endif()
endfunction()

# A test with a GPU: Asyncify stops the program while the device works; the product waits in JavaScript. Optimising what
# Asyncify makes takes minutes and a gigabyte.
function(tern_web_gpu_test name labels)
  find_file(TERN_SWIFTSHADER NAMES vk_swiftshader_icd.json PATHS /usr/lib/chromium /opt/google/chrome NO_DEFAULT_PATH
    NO_CMAKE_FIND_ROOT_PATH)
  target_link_options(${name} PRIVATE -O1 -sASYNCIFY=1 -sASYNCIFY_IMPORTS=[test_device_idle] -sASYNCIFY_STACK_SIZE=65536
    "SHELL:--pre-js ${PROJECT_SOURCE_DIR}/tests/support/web-gpu.js")
  add_dependencies(${name} tern_web_kernels)
  set(environment ${TERN_TEST_ENVIRONMENT} TERN_TEST_QUICK=1 TERN_WEB_LIB=${PROJECT_SOURCE_DIR}/web/lib)
  if(TERN_SWIFTSHADER)
    list(APPEND environment VK_ICD_FILENAMES=${TERN_SWIFTSHADER} VK_DRIVER_FILES=${TERN_SWIFTSHADER})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS "${labels}" ENVIRONMENT "${environment}" PROCESSORS 2)
endfunction()

function(tern_web_tests)
  add_custom_target(tern_web_kernels COMMAND node ${PROJECT_SOURCE_DIR}/tools/wgsl/text.mjs ${PROJECT_SOURCE_DIR}/web/lib/kernels.js)
  foreach(file ${TERN_TESTS_FOUND})
    get_filename_component(name ${file} NAME_WE)
    set(gpu OFF)
    if(NOT TERN_WEB_THREADS AND name MATCHES "${TERN_WEB_GPU_TESTS}")
      set(gpu ON)
    elseif(NOT name MATCHES "${TERN_WEB_TESTS}")
      continue()
    endif()
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    set(labels ${folder})
    if(gpu)
      list(APPEND labels gpu)
    endif()
    tern_wanted(wanted ${labels})
    if(NOT wanted)
      continue()
    endif()
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE tern_test_support)
    target_compile_options(${name} PRIVATE -O1)
    set_target_properties(${name} PROPERTIES TERN_IS_TEST ON)
    tern_web_test_options(${name})
    add_test(NAME ${name} COMMAND node $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${labels}" ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
    if(gpu)
      tern_web_gpu_test(${name} "${labels}")
    endif()
  endforeach()
endfunction()
