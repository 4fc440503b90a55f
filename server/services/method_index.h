// Methods of a generated service by name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace attention {

/// The index that generated code uses. `Message` is any message of the service's file. REQUIRES:
/// the file has the service, and it the method.
template <typename Message>
int MethodIndex(const std::string& service, const std::string& method) {
  return Message::descriptor()
      ->file()
      ->FindServiceByName(service)
      ->FindMethodByName(method)
      ->index();
}

}  // namespace attention
