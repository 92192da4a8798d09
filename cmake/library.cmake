# libtern: one set of objects, linked as a static and as a shared library.
if(EMSCRIPTEN)
  include(cmake/web-sources.cmake)
  add_library(Threads::Threads ALIAS tern_flags) # -pthread, or nothing
else()
  find_package(PkgConfig REQUIRED)
  find_package(Threads REQUIRED)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  pkg_check_modules(LIBMD REQUIRED IMPORTED_TARGET libmd)
endif()

file(GLOB_RECURSE TERN_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER TERN_SOURCES EXCLUDE REGEX "/src/(apps|hub|serve|web)/")
list(FILTER TERN_SOURCES EXCLUDE REGEX "/src/(ranks/mpi[_a-z]*\\.c$|backend/cuda/)") # those of modules
if(EMSCRIPTEN)
  list(FILTER TERN_SOURCES EXCLUDE REGEX "/src/(ranks/|base/module\\.c$|backend/gpu/recurrent/lower_training\\.c$)")
else()
  list(APPEND TERN_SOURCES ${PROJECT_SOURCE_DIR}/src/backend/cuda/open.c)
  list(FILTER TERN_SOURCES EXCLUDE REGEX "/src/backend/webgpu/")
endif()

# A kernel file is compiled for the level that ends its name: x_avx2.c, x_neon.c, ... Files of another CPU are left out.
set(TERN_LEVELS_x86_64 sse41 avx2 avxvnni avx512 avx512vbmi amx)
set(TERN_LEVELS_aarch64 neon dotprod i8mm)
set(TERN_LEVELS_wasm32 simd128)
set(TERN_FLAGS_sse41 -msse4.1 -Wno-psabi) # vectors of 32 bytes are passed to inlined functions alone
set(TERN_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(TERN_FLAGS_avxvnni -mavx2 -mfma -mf16c -mavxvnni)
set(TERN_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd -mavx512vnni -mprefer-vector-width=512)
set(TERN_FLAGS_avx512vbmi ${TERN_FLAGS_avx512} -mavx512vbmi -mavx512vbmi2)
set(TERN_FLAGS_amx ${TERN_FLAGS_avx512vbmi} -mamx-tile -mamx-int8)
set(TERN_FLAGS_neon "")
set(TERN_FLAGS_dotprod -march=armv8.2-a+dotprod)
set(TERN_FLAGS_i8mm -march=armv8.2-a+dotprod+i8mm)
# Checks of every pointer make a kernel ten times as long to compile; its indexes and arithmetic stay checked.
if(TERN_SANITIZE MATCHES "undefined")
  foreach(level ${TERN_LEVELS_x86_64} ${TERN_LEVELS_aarch64})
    list(APPEND TERN_FLAGS_${level} -fno-sanitize=alignment,null,object-size,pointer-overflow)
  endforeach()
endif()
string(REPLACE "AMD64" "x86_64" TERN_CPU "${CMAKE_SYSTEM_PROCESSOR}")

# tern_level_sources(LIST): gives the files in LIST their level's flags, and drops those of another CPU.
function(tern_level_sources list)
  set(sources ${${list}})
  foreach(cpu x86_64 aarch64 wasm32)
    foreach(level ${TERN_LEVELS_${cpu}})
      set(files ${sources})
      list(FILTER files INCLUDE REGEX "_${level}\\.c$")
      if(NOT cpu STREQUAL TERN_CPU)
        list(FILTER sources EXCLUDE REGEX "_${level}\\.c$")
      elseif(files AND TERN_FLAGS_${level})
        tern_source_property(${files} PROPERTY COMPILE_OPTIONS ${TERN_FLAGS_${level}})
      endif()
    endforeach()
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
tern_level_sources(TERN_SOURCES)

# A page downloads the module: code that no token waits for is compiled for size, among it the definitions of ops and the
# trial of kernels, training, and dense products, which are no slower so.
if(EMSCRIPTEN)
  set(TERN_SMALL ${TERN_SOURCES})
  list(FILTER TERN_SMALL EXCLUDE REGEX "/src/(backend/cpu/|base/(half|nearest|pool|sha256)\\.c$)")
  set(seldom ${TERN_SOURCES})
  list(FILTER seldom INCLUDE REGEX "/src/backend/cpu/(selftest/|training/|recurrent/training\\.c$)")
  list(APPEND TERN_SMALL ${seldom} ${PROJECT_SOURCE_DIR}/src/backend/cpu/dense/dense_simd128.c)
  tern_source_property(${TERN_SMALL} PROPERTY COMPILE_OPTIONS ${TERN_WEB_SIZE_FLAGS})
endif()

# The Vulkan backend, and the SPIR-V that the assembler embeds (made by tools/wgsl).
set(TERN_SPIRV_FOLDER ${PROJECT_SOURCE_DIR}/src/backend/gpu/generated CACHE PATH "Where kernels.spvpack and spirv.def are")
if(TERN_VULKAN)
  find_path(TERN_VULKAN_HEADERS vulkan/vulkan_core.h)
  if(NOT TERN_VULKAN_HEADERS)
    message(FATAL_ERROR "No Vulkan headers (vulkan/vulkan_core.h). "
      "Install them (Debian: libvulkan-dev), or configure with -DTERN_VULKAN=OFF to build without the Vulkan backend.")
  endif()
  tern_source_property(${PROJECT_SOURCE_DIR}/src/backend/gpu/spirv.c PROPERTY COMPILE_DEFINITIONS
    TERN_SPIRV_PACK="${TERN_SPIRV_FOLDER}/kernels.spvpack" TERN_SPIRV_INDEX="${TERN_SPIRV_FOLDER}/spirv.def")
  tern_source_property(${PROJECT_SOURCE_DIR}/src/backend/gpu/spirv.c PROPERTY OBJECT_DEPENDS ${TERN_SPIRV_FOLDER}/kernels.spvpack)
else()
  list(FILTER TERN_SOURCES EXCLUDE REGEX "/src/backend/(vulkan/|gpu/spirv\\.c)")
endif()

# The mark of this build, of kernels and flags.
file(GLOB_RECURSE TERN_MARKED CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/* ${PROJECT_SOURCE_DIR}/src/quant/* ${PROJECT_SOURCE_DIR}/src/base/p*.[ch])
string(TOUPPER "${CMAKE_BUILD_TYPE}" TERN_BUILD_TYPE)
add_custom_command(OUTPUT build_mark.c
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/build_mark.c
    "-DFLAGS=${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${TERN_BUILD_TYPE}} ${TERN_SANITIZE} ${TERN_CPU}"
    -P ${PROJECT_SOURCE_DIR}/cmake/build-mark.cmake
  DEPENDS ${TERN_MARKED} cmake/build-mark.cmake cmake/library.cmake cmake/flags.cmake VERBATIM)

# The mark of the headers that modules and the program share; both are compiled with it.
file(GLOB_RECURSE TERN_BORDER CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ranks/*.h ${PROJECT_SOURCE_DIR}/src/hub/torrent/*.h
  ${PROJECT_SOURCE_DIR}/src/backend/*.h ${PROJECT_SOURCE_DIR}/src/ops/*.h ${PROJECT_SOURCE_DIR}/src/quant/*.h
  ${PROJECT_SOURCE_DIR}/src/base/*.h ${PROJECT_SOURCE_DIR}/include/*.h)
add_custom_command(OUTPUT module_mark.c
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/module_mark.c
    -DVERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/module-mark.cmake
  DEPENDS ${TERN_BORDER} cmake/module-mark.cmake VERBATIM)
add_custom_target(module_mark DEPENDS ${PROJECT_BINARY_DIR}/module_mark.c)
function(tern_mark_module target)
  target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/module_mark.c)
  target_compile_definitions(${target} PRIVATE TERN_MODULE)
  add_dependencies(${target} module_mark)
endfunction()

add_library(tern_objects OBJECT ${TERN_SOURCES} ${PROJECT_BINARY_DIR}/build_mark.c ${PROJECT_BINARY_DIR}/module_mark.c)
add_dependencies(tern_objects module_mark)
target_link_libraries(tern_objects PUBLIC tern_flags PkgConfig::PCRE2 PkgConfig::JANSSON $<TARGET_NAME_IF_EXISTS:PkgConfig::LIBMD> Threads::Threads m ${CMAKE_DL_LIBS})
target_compile_definitions(tern_objects PUBLIC TERN_VULKAN=$<BOOL:${TERN_VULKAN}> TERN_WEBGPU=$<BOOL:${EMSCRIPTEN}> TERN_CUDA=$<NOT:$<BOOL:${EMSCRIPTEN}>>)
add_library(tern_static STATIC $<TARGET_OBJECTS:tern_objects>)
target_link_libraries(tern_static PUBLIC tern_objects)
set_target_properties(tern_static PROPERTIES OUTPUT_NAME tern)
if(EMSCRIPTEN) # functions that JavaScript gives to C
  file(GLOB TERN_WEB_IMPORTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/webgpu/*.js)
  foreach(file ${TERN_WEB_IMPORTS})
    target_link_options(tern_static INTERFACE "SHELL:--js-library ${file}")
  endforeach()
  return()
endif()
add_library(tern_shared SHARED $<TARGET_OBJECTS:tern_objects>)
target_link_libraries(tern_shared PRIVATE tern_objects)
target_include_directories(tern_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_options(tern_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tern.map)
set_target_properties(tern_shared PROPERTIES OUTPUT_NAME tern VERSION ${PROJECT_VERSION} SOVERSION 0
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/tern.map)
