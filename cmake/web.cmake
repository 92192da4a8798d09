# The WebAssembly module of the web library: tern.js and tern.wasm, or tern-threads.*, from src/web. An ES module with a factory.
set(TERN_WEB_NAME tern)
if(TERN_WEB_THREADS)
  set(TERN_WEB_NAME tern-threads)
endif()
file(GLOB TERN_WEB_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/web/*.c)
add_executable(tern_web ${TERN_WEB_FILES})
target_link_libraries(tern_web PRIVATE tern_static)
set_target_properties(tern_web PROPERTIES OUTPUT_NAME ${TERN_WEB_NAME} SUFFIX .js
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/web-node.js;${PROJECT_SOURCE_DIR}/cmake/web-memory.js;${TERN_WEB_IMPORTS};${PROJECT_SOURCE_DIR}/src/web/host.js")
target_link_options(tern_web PRIVATE -Os -g0 --no-entry "SHELL:--js-library ${PROJECT_SOURCE_DIR}/src/web/host.js" --extern-pre-js ${PROJECT_SOURCE_DIR}/cmake/web-node.js
  -sMODULARIZE=1 -sEXPORT_ES6=1 -sUSE_ES6_IMPORT_META=1 -sEXPORT_NAME=createTern -sENVIRONMENT=web,worker,node
  -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=16MB -sTOTAL_STACK=1MB -sFILESYSTEM=0 -sASSERTIONS=0
  -sWASM_BIGINT=1 -sINCOMING_MODULE_JS_API=[locateFile,wasmBinary,print,printErr,onAbort,threads,gpu,experts]
  -sEXPORTED_FUNCTIONS=[_malloc,_free] -sNODEJS_CATCH_EXIT=0 -sNODEJS_CATCH_REJECTION=0)
if(TERN_WEB_THREADS)
  # The workers stand ready before the first call, which cannot wait for them.
  target_link_options(tern_web PRIVATE "-sPTHREAD_POOL_SIZE=Module.threads-1" -sPTHREAD_POOL_SIZE_STRICT=2 -Wno-pthreads-mem-growth
    -sEXPORTED_RUNTIME_METHODS=[PThread])
else()
  target_link_options(tern_web PRIVATE --post-js ${PROJECT_SOURCE_DIR}/cmake/web-memory.js)
endif()

# Beside the JavaScript that imports it (not committed). Under Node, the script of a thread is a CommonJS module.
set(TERN_WEB_OUT ${PROJECT_SOURCE_DIR}/web/lib/wasm)
set(copies COMMAND ${CMAKE_COMMAND} -E copy ${TERN_WEB_NAME}.js ${TERN_WEB_NAME}.wasm ${TERN_WEB_OUT})
if(TERN_WEB_THREADS)
  list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy ${TERN_WEB_NAME}.worker.js ${TERN_WEB_OUT}
    COMMAND ${CMAKE_COMMAND} -E copy ${TERN_WEB_NAME}.worker.js ${TERN_WEB_OUT}/${TERN_WEB_NAME}.worker.cjs)
endif()
add_custom_command(TARGET tern_web POST_BUILD COMMAND ${CMAKE_COMMAND} -E make_directory ${TERN_WEB_OUT} ${copies} VERBATIM)
