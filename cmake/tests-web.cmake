# The tests that run in WebAssembly too, under Node, which reads the files for them: groups with the label `web`, which
# compute, or read untrusted bytes with a size_t of 32 bits; and all that replay what fuzzers have found. Left out: what
# starts processes, needs Vulkan, opens more threads one after the other than stand ready (they come back in turns of the
# event loop, which a test has none of), or would take minutes. Those that open a GPU run on Dawn of web/node_modules on
# SwiftShader, and not with threads, which Asyncify has not been tried with.
function(tern_web_group_wanted result labels)
  if("web" IN_LIST labels AND NOT ("gpu" IN_LIST labels AND TERN_WEB_THREADS))
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

function(tern_web_test_options name)
  target_link_options(${name} PRIVATE -O1 -g0 -sNODERAWFS=1 -sENVIRONMENT=node,worker -sEXIT_RUNTIME=1 -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=4MB -sASSERTIONS=0 --pre-js ${PROJECT_SOURCE_DIR}/tests/support/web.js)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/web.js)
  if(TERN_WEB_THREADS) # enough for the largest pool of a test, ready before main begins
    target_link_options(${name} PRIVATE -sPTHREAD_POOL_SIZE=16 -Wno-pthreads-mem-growth)
  endif()
endfunction()

# The folder of the GPU's tests gets Asyncify, which stops the program while the device works; the product waits in
# JavaScript. Optimising what Asyncify makes takes minutes and a gigabyte.
function(tern_web_test_program program)
  tern_web_test_options(${program})
  if(program STREQUAL test_gpu)
    target_link_options(${program} PRIVATE -O1 -sASYNCIFY=1 -sASYNCIFY_IMPORTS=[test_device_idle] -sASYNCIFY_STACK_SIZE=65536
      "SHELL:--pre-js ${PROJECT_SOURCE_DIR}/tests/support/web-gpu.js")
    add_custom_target(tern_web_kernels COMMAND node ${PROJECT_SOURCE_DIR}/tools/wgsl/text.mjs ${PROJECT_SOURCE_DIR}/web/lib/kernels.js)
    add_dependencies(${program} tern_web_kernels)
  endif()
endfunction()

function(tern_web_test_entry name labels)
  set(environment ${TERN_TEST_ENVIRONMENT})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
  if(NOT "gpu" IN_LIST labels)
    return()
  endif()
  list(APPEND environment TERN_TEST_QUICK=1 TERN_WEB_LIB=${PROJECT_SOURCE_DIR}/web/lib)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 ENVIRONMENT "${environment}" PROCESSORS 2)
endfunction()
