# Compiler flags that every target shares.
add_library(tern_flags INTERFACE)
target_compile_options(tern_flags INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fvisibility=hidden -fno-strict-aliasing)
if(EMSCRIPTEN) # what a test indexes with 64 bits is in its memory
  target_compile_options(tern_flags INTERFACE $<$<BOOL:$<TARGET_PROPERTY:TERN_IS_TEST>>:-Wno-shorten-64-to-32>)
endif()
target_compile_definitions(tern_flags INTERFACE _GNU_SOURCE TERN_VERSION="${PROJECT_VERSION}")
if(TERN_WERROR)
  target_compile_options(tern_flags INTERFACE -Werror)
endif()
if(EMSCRIPTEN)
  # For everything that is linked together, also what others have written. WebAssembly has no choice of features at run time.
  add_compile_options(-msimd128)
  # Of a compile emcc makes one call of clang, and starts for longer than clang takes for most files: so clang is called
  # here, with the flags that emcc says it gives.
  execute_process(COMMAND ${CMAKE_C_COMPILER} --cflags OUTPUT_VARIABLE cflags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${PROJECT_BINARY_DIR}/empty.c "")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -v -E ${PROJECT_BINARY_DIR}/empty.c ERROR_VARIABLE said OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said MATCHES "\"?([^\" \n]*/clang[^\" \n]*)\"? -target") # in quotes or not
    message(FATAL_ERROR "${CMAKE_C_COMPILER} -v: expected the call of clang, /FOLDER/clang... -target ..., found\n${said}")
  endif()
  set(CMAKE_C_COMPILE_OBJECT "${CMAKE_MATCH_1} ${cflags} <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>")
  set(TERN_WEB_SIZE_FLAGS -Os -fno-inline-functions) # as emcc gives them to clang for -Os
  # Emscripten's scripts find Debian's acorn under Debian's Node without this, under another one with it.
  set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK "${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs:$ENV{NODE_PATH}")
  if(TERN_WEB_THREADS)
    add_compile_options(-pthread)
    add_link_options(-pthread)
  endif()
endif()
if(TERN_SANITIZE)
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
target_include_directories(tern_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
