# CPack runs this script when the files under /usr are staged. It adds what only the package has, the unit and /etc, compresses
# the manual pages, and moves the completions to the folder where Debian's zsh looks for them.
set(server ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/server)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/attend-server.service DESTINATION ${server}/usr/lib/systemd/system
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/attend.json DESTINATION ${server}/etc/attend
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
foreach(component IN ITEMS server command)
  set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/share)
  file(GLOB pages ${share}/man/man?/*.[1-8])
  if(NOT pages)
    message(FATAL_ERROR "${component}: no manual pages: install help2man, and build the target manual again")
  endif()
  execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
endforeach()
