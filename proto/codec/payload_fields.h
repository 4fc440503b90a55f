// Which fields of a message type carry payload: large `bytes` that are never copied through a
// std::string.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <map>
#include <memory>

namespace attention {

/// What a message type holds below it; built once per type. Immutable; thread-safe.
class PayloadFields {
 public:
  /// The fields of `type`. REQUIRES: no type that leads to a payload contains itself.
  explicit PayloadFields(const google::protobuf::Descriptor& type);

  /// Whether field `number` is itself a payload.
  bool IsPayload(uint32_t number) const;
  /// The fields of the message in field `number`, if that message leads to a payload; else null.
  const PayloadFields* Nested(uint32_t number) const;
  /// Whether there is no payload anywhere below.
  bool empty() const { return fields_.empty(); }

 private:
  // By field number; null marks a payload.
  std::map<uint32_t, std::unique_ptr<const PayloadFields>> fields_;
};

/// The payload fields of generated type M.
template <typename M>
const PayloadFields& PayloadFieldsOf() {
  static const PayloadFields fields(*M::descriptor());
  return fields;
}

}  // namespace attention
