# WebAssembly with Debian's Emscripten; programs (the tests) run under Node.
set(EMSCRIPTEN_SYSTEM_PROCESSOR wasm32)
find_path(TERN_EMSCRIPTEN emcc.py PATHS $ENV{EMSCRIPTEN} /usr/share/emscripten NO_CMAKE_FIND_ROOT_PATH)
if(NOT TERN_EMSCRIPTEN)
  message(FATAL_ERROR "No Emscripten (emcc.py) in /usr/share/emscripten or in EMSCRIPTEN: scripts/install-deps.sh --web installs it")
endif()
include(${TERN_EMSCRIPTEN}/cmake/Modules/Platform/Emscripten.cmake)
set(CMAKE_CROSSCOMPILING_EMULATOR node)
