# Writes OUT, a C file with a mark of everything that the speed of the CPU's kernels comes from: their sources below ROOT and FLAGS.
# What `tern tune` has measured holds where the mark is the same, in whatever program libtern is linked into.
file(GLOB_RECURSE files LIST_DIRECTORIES false ${ROOT}/src/backend/cpu/* ${ROOT}/src/quant/* ${ROOT}/src/base/p*.[ch])
list(SORT files)
set(all "${FLAGS}")
foreach(file ${files})
  file(SHA256 ${file} sum)
  string(APPEND all "\n${sum}")
endforeach()
string(SHA256 mark "${all}")
string(SUBSTRING ${mark} 0 16 mark)
file(CONFIGURE OUTPUT ${OUT} CONTENT "/* Made by cmake/build-mark.cmake. */\nextern const char tern__build_mark[];\nconst char tern__build_mark[] = \"${mark}\";\n")
