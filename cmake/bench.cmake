# The benchmarks; targets that are built on request only.
set(TERN_BENCH_STREAM ${PROJECT_SOURCE_DIR}/bench/stream/stream.c)

# The ternary kernels.
file(GLOB TERN_BENCH_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
tern_level_sources(TERN_BENCH_SOURCES)
add_executable(bench_kernels EXCLUDE_FROM_ALL ${TERN_BENCH_SOURCES} ${TERN_BENCH_STREAM})

# The same for the float kernels.
file(GLOB TERN_BENCH_DENSE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/dense/*.c)
add_executable(bench_dense EXCLUDE_FROM_ALL ${TERN_BENCH_DENSE_SOURCES} ${TERN_BENCH_STREAM})

# The products of training, and its other ops.
add_executable(bench_gradient EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/gradient/bench_gradient.c ${TERN_BENCH_STREAM})
add_executable(bench_training_rows EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/training/bench_training_rows.c ${TERN_BENCH_STREAM})

# The pipelines of a GPU.
if(TERN_VULKAN)
  foreach(name bench_gpu_linear bench_gpu_dense bench_gpu_attention bench_gpu_products bench_gpu_rows)
    add_executable(${name} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/gpu/${name}.c ${PROJECT_SOURCE_DIR}/bench/gpu/chain.c)
    target_link_libraries(${name} PRIVATE tern_static)
  endforeach()
endif()

# Kernels alone, on matrices that are in no cache: RSR and its steps, look-up tables, each beside dot products.
file(GLOB TERN_BENCH_RSR_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/rsr/*.c)
add_executable(bench_rsr EXCLUDE_FROM_ALL ${TERN_BENCH_RSR_SOURCES} ${PROJECT_SOURCE_DIR}/bench/cold/cold.c)
target_link_libraries(bench_rsr PRIVATE rsr_multipliers)
# On an NVIDIA GPU: the same, and the lists of a sparse feed-forward network.
if(TARGET tern_cuda_kernels)
  foreach(name rsr sparse)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/${name}/*.cu ${PROJECT_SOURCE_DIR}/bench/${name}/*.cuh)
    set(product ${PROJECT_BINARY_DIR}/cuda/linear/ternary_vec.cu.o)
    set(out ${PROJECT_BINARY_DIR}/bench_${name}_cuda)
    set(sources ${files})
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    add_custom_command(OUTPUT ${out} DEPENDS ${files} ${product} VERBATIM COMMENT "Building bench_${name}_cuda"
      COMMAND ${TERN_NVCC} -O3 -std=c++17 ${codes} -I${PROJECT_SOURCE_DIR}/src ${sources} ${product} -o ${out})
    add_custom_target(${name}_cuda DEPENDS ${out})
  endforeach()
endif()
add_executable(bench_lut EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/lut/bench_lut.c ${PROJECT_SOURCE_DIR}/bench/cold/cold.c)

add_executable(bench_grammar EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/grammar/bench_grammar.c)
add_executable(bench_speculation EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/speculation/bench_speculation.c)
add_executable(bench_speculation_batch EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/speculation/bench_speculation_batch.c)

add_executable(bench_collective EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/ranks/bench_collective.c)
foreach(name bench_kernels bench_dense bench_gradient bench_training_rows bench_collective bench_rsr bench_lut bench_grammar bench_speculation
  bench_speculation_batch)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(${name} PRIVATE tern_static)
endforeach()
