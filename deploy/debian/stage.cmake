# CPack runs this script when the files under /usr are staged. It adds what only the package has, the unit and /etc, compresses
# the manual pages, and moves the completions to the folder where Debian's zsh looks for them.
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
