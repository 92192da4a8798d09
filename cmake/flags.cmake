# Compiler flags that every target shares.
add_library(tern_flags INTERFACE)
target_compile_options(tern_flags INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fvisibility=hidden -fno-strict-aliasing)
target_compile_definitions(tern_flags INTERFACE _GNU_SOURCE TERN_VERSION="${PROJECT_VERSION}")
if(TERN_WERROR)
  target_compile_options(tern_flags INTERFACE -Werror)
endif()
if(TERN_SANITIZE)
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()
target_include_directories(tern_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
