#include "proto/codec/payload_fields.h"

#include "proto/attention/v1/attention.pb.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {
namespace {

template <typename M>
bool IsField(const google::protobuf::FieldDescriptor& field, int number) {
  return field.containing_type() == M::descriptor() && field.number() == number;
}

bool IsPayloadField(const google::protobuf::FieldDescriptor& field) {
  using inference::ModelInferRequest;
  using inference::ModelInferResponse;
  return IsField<v1::Tensor>(field, v1::Tensor::kDataFieldNumber) ||
         IsField<ModelInferRequest>(field, ModelInferRequest::kRawInputContentsFieldNumber) ||
         IsField<ModelInferResponse>(field, ModelInferResponse::kRawOutputContentsFieldNumber);
}

}  // namespace

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
