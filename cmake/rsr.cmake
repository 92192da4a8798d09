# The RSR multipliers of the papers, which bench_rsr measures and tests check; libtern has what --kernel rsr runs.
file(GLOB RSR_MULTIPLIERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/rsr/multipliers/*.c)
tern_level_sources(RSR_MULTIPLIERS)
add_library(rsr_multipliers STATIC EXCLUDE_FROM_ALL ${RSR_MULTIPLIERS})
target_link_libraries(rsr_multipliers PUBLIC tern_static)
target_include_directories(rsr_multipliers PUBLIC ${PROJECT_SOURCE_DIR}/bench)
