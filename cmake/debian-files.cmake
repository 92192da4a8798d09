# Run by CPack on the files of the packages before it packs them: the licence, a changelog in Debian's form, and manual
# pages that are compressed. Configured by packages.cmake.
file(READ "@TERN_LICENSE@" license)
string(REGEX REPLACE "^.*The Tern authors\n\n" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" license " ${license}")
# The date of the release, or of today before there is one.
file(STRINGS "@PROJECT_SOURCE_DIR@/CHANGELOG.md" released REGEX "^## .@PROJECT_VERSION@. - [0-9-]+$")
string(REGEX REPLACE "^.* - " "" released "${released}")
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C date -u -R -d "${released}" OUTPUT_VARIABLE date
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
foreach(package @TERN_PACKAGES@)
  string(REPLACE "=" ";" package ${package})
  list(POP_FRONT package component name)
  set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}")
  if(NOT IS_DIRECTORY "${root}")
    continue()
  endif()
  set(docs "${root}/usr/share/doc/${name}")
  file(WRITE "${docs}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tern

Files: *
Copyright: 2026 The Tern authors
License: Expat
${license}")
  file(WRITE "${docs}/changelog" "tern (@PROJECT_VERSION@) stable; urgency=low

  * Release @PROJECT_VERSION@: CHANGELOG.md in the source lists what has changed.

 -- @CPACK_PACKAGE_CONTACT@  ${date}
")
  # CPack calls ldconfig itself if a file is below usr/lib. A package is for one architecture. No mailbox exists yet.
  file(WRITE "${root}/usr/share/lintian/overrides/${name}" "${name}: bogus-mail-host *
${name}: bogus-mail-host-in-debian-changelog *
${name}: maintscript-calls-ldconfig *
${name}: pkg-config-unavailable-for-cross-compilation *
")
  file(GLOB pages "${root}/usr/share/man/man1/*.1")
  execute_process(COMMAND gzip -9nf "${docs}/changelog" ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
