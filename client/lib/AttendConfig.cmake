# find_package(Attend): the target Attend::client.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(absl CONFIG)
# Protobuf's own package since 22; CMake's module for Debian's 3.21, which has none.
find_package(Protobuf CONFIG QUIET)
if(NOT TARGET protobuf::libprotobuf)
  find_dependency(Protobuf)
endif()
# gRPC would have pkg-config walk the many dependencies of a re2 without a CMake package, a minute on Debian 13; a gRPC that is
# shared, as Debian's, brings its own.
find_package(re2 CONFIG QUIET)
if(NOT TARGET re2::re2)
  add_library(re2::re2 INTERFACE IMPORTED)
endif()
find_dependency(gRPC CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/AttendTargets.cmake)
