# Run by CPack when the files under /usr are staged: the unit, which names them there, and /etc are the package's alone; Debian's
# manual pages are compressed, and its zsh looks for completions of packages in a folder of their own.
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
  execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
endforeach()
