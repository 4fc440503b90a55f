# Run by CPack when the files under /usr are staged: the unit, which names them there, and /etc are the package's alone; Debian's
# manual pages are compressed, and its zsh looks for completions of packages in a folder of their own.
set(staged ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/attend-server.service DESTINATION ${staged}/usr/lib/systemd/system
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/attend.json DESTINATION ${staged}/etc/attend
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(GLOB pages ${staged}/usr/share/man/man?/*.[1-8])
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${staged}/usr/share/zsh/site-functions ${staged}/usr/share/zsh/vendor-completions)
