# Run by `cmake --install`: copies `headers`, of the folder `source` or else generated in the folder `build`, into attend/ of the
# folder `include` of the prefix, where they include each other as "attend/...".
foreach(header IN LISTS headers)
  set(original ${source}/${header})
  if(NOT EXISTS ${original})
    set(original ${build}/${header})
  endif()
  file(READ ${original} text)
  string(REGEX REPLACE "(#include \")((client|core|proto)/)" "\\1attend/\\2" text "${text}")
  file(WRITE ${build}/include/${header} "${text}")
  get_filename_component(folder ${header} DIRECTORY)
  file(INSTALL ${build}/include/${header} DESTINATION ${CMAKE_INSTALL_PREFIX}/${include}/attend/${folder})
endforeach()
