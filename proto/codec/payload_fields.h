// The payload fields of message types: large `bytes` that are never copied through a std::string.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <map>
#include <memory>

namespace attention {

/// The payload fields of a message type and of the types below it; built once per type. Immutable;
/// thread-safe.
class PayloadFields {
 public:
  /// The fields of `type`. REQUIRES: no type that leads to a payload contains itself.
  explicit PayloadFields(const google::protobuf::Descriptor& type);

  /// Returns whether field `number` is a payload.
  bool IsPayload(uint32_t number) const;
  /// Returns the fields of the message in field `number`, if that message contains payloads; else
  /// null.
  const PayloadFields* Nested(uint32_t number) const;
  /// Returns whether there is no payload in or below the type.
  bool empty() const { return fields_.empty(); }

 private:
  // The fields by number; null marks a payload.
  std::map<uint32_t, std::unique_ptr<const PayloadFields>> fields_;
};

/// The payload fields of generated type M.
template <typename M>
const PayloadFields& PayloadFieldsOf() {
  static const PayloadFields fields(*M::descriptor());
  return fields;
}

}  // namespace attention
