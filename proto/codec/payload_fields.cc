#include "proto/codec/payload_fields.h"

#include "proto/codec/envelope_fields.h"

namespace attention {
PayloadFields::PayloadFields(const google::protobuf::Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const auto number = static_cast<uint32_t>(field.number());
    if (IsPayloadField(field)) {
      fields_.emplace(number, nullptr);
    } else if (field.message_type() != nullptr) {
      auto nested = std::make_unique<const PayloadFields>(*field.message_type());
      if (!nested->empty()) {
        fields_.emplace(number, std::move(nested));
      }
    }
  }
}

bool PayloadFields::IsPayload(uint32_t number) const {
  const auto found = fields_.find(number);
  return found != fields_.end() && found->second == nullptr;
}

const PayloadFields* PayloadFields::Nested(uint32_t number) const {
  const auto found = fields_.find(number);
  return found == fields_.end() ? nullptr : found->second.get();
}

}  // namespace attention
