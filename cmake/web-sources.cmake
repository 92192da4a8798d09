# What WebAssembly builds compile themselves, from Debian's sources: PCRE2 and jansson, and cmocka for the tests.
set(TERN_WEB_SOURCES ${PROJECT_SOURCE_DIR}/build/web-sources)
set(names pcre2 jansson cmocka)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/fetch-sources.sh ${TERN_WEB_SOURCES} ${names} COMMAND_ERROR_IS_FATAL ANY)

# PCRE2's 8-bit library without its just-in-time compiler; matching takes its memory from the heap.
set(pcre2 ${TERN_WEB_SOURCES}/pcre2/src)
set(config ${PROJECT_BINARY_DIR}/pcre2)
configure_file(${pcre2}/config.h.generic ${config}/config.h COPYONLY)
configure_file(${pcre2}/pcre2.h.generic ${config}/pcre2.h COPYONLY)
configure_file(${pcre2}/pcre2_chartables.c.dist ${config}/pcre2_chartables.c COPYONLY)
set(sources ${config}/pcre2_chartables.c)
foreach(name auto_possess compile config context convert dfa_match error extuni find_bracket jit_compile maketables match match_data
        newline ord2utf pattern_info script_run serialize string_utils study substitute substring tables ucd valid_utf xclass)
  list(APPEND sources ${pcre2}/pcre2_${name}.c)
endforeach()
# For size, as what no token waits for; texts go through match alone.
tern_source_property(${sources} PROPERTY COMPILE_OPTIONS ${TERN_WEB_SIZE_FLAGS})
tern_source_property(${pcre2}/pcre2_match.c PROPERTY COMPILE_OPTIONS "")
add_library(tern_pcre2 STATIC ${sources})
target_include_directories(tern_pcre2 PUBLIC ${config} PRIVATE ${pcre2})
target_compile_definitions(tern_pcre2 PUBLIC PCRE2_STATIC
  PRIVATE PCRE2_CODE_UNIT_WIDTH=8 HAVE_CONFIG_H HAVE_MEMMOVE SUPPORT_PCRE2_8 SUPPORT_UNICODE)
add_library(PkgConfig::PCRE2 ALIAS tern_pcre2)

file(WRITE ${PROJECT_BINARY_DIR}/jansson/jansson_config.h "#define JSON_INLINE inline
#define JSON_INTEGER_IS_LONG_LONG 1
#define JSON_HAVE_LOCALECONV 0
#define JSON_HAVE_ATOMIC_BUILTINS 1
#define JSON_PARSER_MAX_DEPTH 2048
")
file(WRITE ${PROJECT_BINARY_DIR}/jansson/jansson_private_config.h "#define HAVE_ATOMIC_BUILTINS 1
#define HAVE_GETPID 1
#define HAVE_SCHED_YIELD 1
#define HAVE_SCHED_H 1
#define HAVE_STDINT_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_UNISTD_H 1
#define HAVE_STRTOLL 1
#define INITIAL_HASHTABLE_ORDER 3
")
file(GLOB sources ${TERN_WEB_SOURCES}/jansson/src/*.c)
tern_source_property(${sources} PROPERTY COMPILE_OPTIONS ${TERN_WEB_SIZE_FLAGS})
add_library(tern_jansson STATIC ${sources})
target_include_directories(tern_jansson PUBLIC ${PROJECT_BINARY_DIR}/jansson ${TERN_WEB_SOURCES}/jansson/src)
target_compile_definitions(tern_jansson PRIVATE HAVE_CONFIG_H HAVE_STDINT_H)
add_library(PkgConfig::JANSSON ALIAS tern_jansson)

set(cmocka ${TERN_WEB_SOURCES}/cmocka)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cmocka)
file(WRITE ${PROJECT_BINARY_DIR}/cmocka/config.h "")
add_library(tern_cmocka STATIC EXCLUDE_FROM_ALL ${cmocka}/src/cmocka.c)
target_include_directories(tern_cmocka PUBLIC ${cmocka}/include PRIVATE ${PROJECT_BINARY_DIR}/cmocka)
target_compile_definitions(tern_cmocka PUBLIC _UINTPTR_T PRIVATE HAVE_CONFIG_H HAVE_INTTYPES_H HAVE_STRINGS_H HAVE_STDINT_H HAVE_SYS_STAT_H HAVE_SYS_TYPES_H
  HAVE_TIME_H HAVE_UNISTD_H HAVE_SIGNAL_H HAVE_SETJMP_H HAVE_STRSIGNAL HAVE_CLOCK_GETTIME HAVE_STRUCT_TIMESPEC HAVE_GCC_THREAD_LOCAL_STORAGE)
add_library(PkgConfig::CMOCKA ALIAS tern_cmocka)
foreach(name pcre2 jansson cmocka)
  target_compile_options(tern_${name} PRIVATE -O2 -g0 -w)
endforeach()
