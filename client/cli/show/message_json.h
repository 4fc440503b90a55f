// JSON of protobuf messages.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace attention {

/// Returns an object with the fields of `message` under their names in the .proto: numbers as
/// numbers (unlike protobuf's own JSON, which quotes 64-bit integers), enumerations by name. An
/// optional field that is absent is left out. REQUIRES: the fields are bool, int64, uint64, double,
/// string, enum or message; repeated ones string or message.
nlohmann::json ToJson(const google::protobuf::Message& message);

/// An array with the JSON of each message.
template <typename Messages>
nlohmann::json ToJsonArray(const Messages& messages) {
  nlohmann::json array = nlohmann::json::array();
  for (const google::protobuf::Message& message : messages) {
    array.push_back(ToJson(message));
  }
  return array;
}

}  // namespace attention
