# Run by CPack when the files under /usr are staged: /etc is beside them, not beneath.
file(INSTALL ${CMAKE_CURRENT_LIST_DIR}/attend.json DESTINATION ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/etc/attend)
