# The tests that run in WebAssembly too, under Node, which reads the files for them: what computes, and what reads untrusted bytes with a
# size_t of 32 bits. Left out: what starts processes, needs Vulkan, or would take minutes.
set(TERN_WEB_TESTS "^test_(base|cpu|map|pool|[a-z_]+_kernels|op_case|gradient_ops|training_rows|update_ops|gguf|gguf_write|json|safetensors|\
encoding|round_trip|rsr|ternarise|bpe_train|chat_template|nfc|text|tokenizer|tokenizer_gguf|sampler|stop|draft|generate|generation_steps|\
session|goldens|loader|lora|open|adapter|exact_head)$" CACHE STRING "Which tests a WebAssembly build has")
list(FILTER TERN_TESTS_FOUND INCLUDE REGEX "/test_[^/]*\\.c$")

function(tern_web_test_options name)
  target_link_options(${name} PRIVATE -O2 -g0 -sNODERAWFS=1 -sENVIRONMENT=node,worker -sEXIT_RUNTIME=1 -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=4MB -sASSERTIONS=0 --pre-js ${PROJECT_SOURCE_DIR}/tests/support/web.js)
  if(TERN_WEB_THREADS) # enough for the largest pool of a test, ready before main begins
    target_link_options(${name} PRIVATE -sPTHREAD_POOL_SIZE=16 -Wno-pthreads-mem-growth)
  endif()
endfunction()

function(tern_web_tests)
  foreach(file ${TERN_TESTS_FOUND})
    get_filename_component(name ${file} NAME_WE)
    if(NOT name MATCHES "${TERN_WEB_TESTS}")
      continue()
    endif()
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE tern_test_support)
    target_compile_options(${name} PRIVATE -O1)
    set_target_properties(${name} PROPERTIES TERN_IS_TEST ON)
    tern_web_test_options(${name})
    add_test(NAME ${name} COMMAND node $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${folder}" ENVIRONMENT "${TERN_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
