# `cmake --install` and, through CPack, the Debian packages `attend-server` and `attend` (the command): ./dev package.
include(GNUInstallDirs)

if(command IN_LIST ATTEND_COMPONENTS)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attend RENAME copyright COMPONENT command)
  foreach(api IN ITEMS attention/v1/attention inference/open_inference)
    get_filename_component(folder ${api} DIRECTORY)
    install(FILES proto/${api}.proto DESTINATION ${CMAKE_INSTALL_DATADIR}/attend/proto/${folder} COMPONENT command)
  endforeach()
endif()
if(server IN_LIST ATTEND_COMPONENTS)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attend-server RENAME copyright COMPONENT server)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/deploy/debian/stage.cmake)
set(CPACK_PACKAGE_NAME attend)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Attend's maintainers <attend@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_STRIP_FILES ON)
# Permissions do not depend on the umask of the build.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL server command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME attend-server)
set(CPACK_DEBIAN_SERVER_DESCRIPTION "attention inference over gRPC: server
Batched multi-head attention, whole transformer checkpoints and decoding sessions on CPUs,
served over gRPC (attention.v1 and the Open Inference Protocol v2).")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS attend)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles
  ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm
  ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME attend)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "attention inference over gRPC: command-line client
Asks a server that computes attention, shows what attends to what, and load-tests the server.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "attend-server, librsvg2-bin")
include(CPack)
