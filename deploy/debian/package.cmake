# `cmake --install` and, through CPack, the Debian package `attend`: ./dev package.
include(GNUInstallDirs)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES proto/attention/v1/attention.proto DESTINATION ${CMAKE_INSTALL_DATADIR}/attend/proto/attention/v1)
install(FILES proto/inference/open_inference.proto DESTINATION ${CMAKE_INSTALL_DATADIR}/attend/proto/inference)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/deploy/debian/stage.cmake)
set(CPACK_PACKAGE_NAME attend)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Attend's maintainers <attend@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "attention inference over gRPC: server and command-line client")
set(CPACK_PACKAGE_DESCRIPTION "Batched multi-head attention, whole transformer checkpoints and decoding sessions on CPUs,
served over gRPC (attention.v1 and the Open Inference Protocol v2); a client that asks, shows and load-tests it.")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_STRIP_FILES ON)
# Permissions do not depend on the umask of the build.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "librsvg2-bin")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles
  ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm
  ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
include(CPack)
