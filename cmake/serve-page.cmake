# Writes OUT, a C file with the files of the page of `tern serve`: those of ROOT/web/serve, and those that it shares with ROOT/web/page.
set(shared app chat conversation conversations dom explain format frame history notices plot sampling settings theme transcript)
set(files "/|web/serve/index.html" "/style.css|web/page/style.css" "/icon.svg|web/page/icon.svg")
foreach(name ${shared})
  list(APPEND files "/js/${name}.js|web/page/js/${name}.js")
endforeach()
foreach(name main metrics server)
  list(APPEND files "/js/serve/${name}.js|web/serve/js/${name}.js")
endforeach()
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_js "text/javascript; charset=utf-8")
set(arrays "")
set(rows "")
set(i 0)
foreach(pair ${files})
  string(REGEX REPLACE "^(.*)\\|(.*)$" "\\1;\\2" parts "${pair}")
  list(GET parts 0 path)
  list(GET parts 1 file)
  string(REGEX REPLACE "^.*\\." "" ending "${file}")
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char file_${i}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${path}\", \"${type_${ending}}\", file_${i}, sizeof file_${i}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "/* Made by cmake/serve-page.cmake. */
#include \"serve/page/page.h\"

${arrays}
const tern_page_file tern_page_files[] = {
${rows}    {0},
};
")
