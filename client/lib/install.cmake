# `cmake --install --component client`: the library for programs outside this repository, as README.md says.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The headers that a program includes, and those that they include; the last two are generated.
set(headers
  client/lib/answer_codec.h
  client/lib/attend_request.h
  client/lib/attention_client.h
  client/lib/connection_options.h
  client/lib/decode_stream.h
  client/lib/merge_answers.h
  client/lib/sharded_options.h
  client/lib/sharded_session.h
  core/runtime/aligned_buffer.h
  core/tensor/dtype.h
  core/tensor/tensor.h
  proto/attention/v1/attention.pb.h
  proto/grpc/health/v1/health.pb.h)

# Their #include lines name files from the repository's root, which is include/attend once they are installed.
install(CODE "set(source \"${CMAKE_SOURCE_DIR}\")
set(build \"${CMAKE_BINARY_DIR}\")
set(include \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(headers \"${headers}\")" COMPONENT client)
install(SCRIPT lib/install_headers.cmake COMPONENT client)

# Attend::client, and the libraries of ours that it links.
set(libraries client proto proto_generated base)
foreach(library IN LISTS libraries)
  set_target_properties(attention_${library} PROPERTIES EXPORT_NAME ${library} OUTPUT_NAME attend_${library})
  install(TARGETS attention_${library} EXPORT AttendTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Attend)
install(EXPORT AttendTargets NAMESPACE Attend:: DESTINATION ${config_folder} COMPONENT client)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/AttendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES lib/AttendConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/AttendConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT client)

# The file finds the prefix by its own place, which is lib/pkgconfig or, for /usr, lib/x86_64-linux-gnu/pkgconfig.
file(RELATIVE_PATH prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(lib/attend-client.pc.in attend-client.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attend-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attend-client RENAME copyright
  COMPONENT client)
