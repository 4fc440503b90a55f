#include "proto/codec/envelope_fields.h"

#include <string>

#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/request_limits.h"
#include "proto/codec/wire.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;
using Encoding = EnvelopeFields::Field::Encoding;

// The maximum number of integers in a list of an answer, which take one to ten bytes on the wire
// and up to eight in memory.
constexpr int64_t kMaxIntegers = int64_t{1} << 24;
// The maximum number of elements that exist once per sequence: twice as many as a request may have
// sequences, so that the server's own error tells of a few too many.
constexpr int64_t kMaxPerSequence = 2 * kMaxSequences;
// The maximum number of elements that exist once per layer.
constexpr int64_t kMaxPerLayer = int64_t{1} << 16;
// The maximum number of tensors; the protocol needs a handful.
constexpr int64_t kMaxTensors = 64;
constexpr int64_t kMaxParameters = 256;
// The maximum number of joined parts of an answer (DecodeStep.join_parts), and of the extents of
// their tensors.
constexpr int64_t kMaxParts = int64_t{1} << 16;
constexpr int64_t kMaxExtents = 4 * kMaxParts;
// The maximum number of elements of contents that no input takes: enough to name the field.
constexpr int64_t kMaxUnused = kMaxPerSequence;

template <typename M>
bool IsField(const FieldDescriptor& field, int number) {
  return field.containing_type() == M::descriptor() && field.number() == number;
}

// Returns the bounds by full name: of the lists of requests, which take little on the wire when
// they are compressed, and of repeated messages of answers. The contents of tensors of floats may
// fill a message.
const std::map<std::string, int64_t>& Bounds() {
  static const std::map<std::string, int64_t> bounds = {
      {"attention.v1.Tensor.shape", kMaxExtents},
      {"attention.v1.WeightsChoice.layers", kMaxPerLayer},
      {"attention.v1.WeightsChoice.heads", kMaxHeads},
      {"attention.v1.HiddenStates.lengths", kMaxPerSequence},
      {"attention.v1.HiddenStates.memory_lengths", kMaxPerSequence},
      {"attention.v1.TokenIds.ids", kMaxTokens},
      {"attention.v1.TokenIds.lengths", kMaxPerSequence},
      {"attention.v1.TokenIds.type_ids", kMaxTokens},
      {"attention.v1.TextInput.texts", kMaxPerSequence},
      {"attention.v1.QueryKeyValue.lengths", kMaxPerSequence},
      {"attention.v1.QueryKeyValue.kv_lengths", kMaxPerSequence},
      {"attention.v1.QueryKeyValue.query_offsets", kMaxPerSequence},
      {"attention.v1.AttentionOptions.global_tokens", kMaxTokens},
      {"attention.v1.AttentionOptions.sequences", kMaxPerSequence},
      {"attention.v1.AttentionOptions.alibi_slopes", kMaxHeads},
      {"attention.v1.AttentionOptions.sinks", kMaxHeads},
      {"attention.v1.SequenceOptions.global_tokens", kMaxTokens},
      {"attention.v1.RmsNorm.weight", kMaxHeadWidth},
      {"attention.v1.DecodeResponse.parts", kMaxParts},
      {"inference.ModelInferRequest.inputs", kMaxTensors},
      {"inference.ModelInferRequest.outputs", kMaxTensors},
      {"inference.ModelInferRequest.raw_input_contents", kMaxTensors},
      {"inference.ModelInferRequest.parameters", kMaxParameters},
      {"inference.ModelInferRequest.InferInputTensor.shape", kMaxPerSequence},
      {"inference.ModelInferRequest.InferInputTensor.parameters", kMaxParameters},
      {"inference.ModelInferRequest.InferRequestedOutputTensor.parameters", kMaxParameters},
      {"inference.InferTensorContents.bool_contents", kMaxUnused},
      {"inference.InferTensorContents.int_contents", kMaxIntegersOfInput},
      {"inference.InferTensorContents.int64_contents", kMaxIntegersOfInput},
      {"inference.InferTensorContents.uint_contents", kMaxUnused},
      {"inference.InferTensorContents.uint64_contents", kMaxUnused},
      {"inference.InferTensorContents.fp64_contents", kMaxUnused},
      {"inference.InferTensorContents.bytes_contents", kMaxUnused},
  };
  return bounds;
}

Encoding EncodingOf(const FieldDescriptor& field) {
  if (IsPayloadField(field)) {
    return Encoding::kPayload;
  }
  using google::protobuf::internal::WireFormatLite;
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  switch (WireFormatLite::WireTypeForFieldType(type)) {
    case wire::kVarint:
      return Encoding::kVarint;
    case wire::kFixed32:
      return Encoding::kFixed32;
    case wire::kFixed64:
      return Encoding::kFixed64;
    default:
      return field.message_type() != nullptr ? Encoding::kMessage : Encoding::kBytes;
  }
}

}  // namespace

bool IsPayloadField(const FieldDescriptor& field) {
  using inference::ModelInferRequest;
  using inference::ModelInferResponse;
  return IsField<v1::Tensor>(field, v1::Tensor::kDataFieldNumber) ||
         IsField<ModelInferRequest>(field, ModelInferRequest::kRawInputContentsFieldNumber) ||
         IsField<ModelInferResponse>(field, ModelInferResponse::kRawOutputContentsFieldNumber);
}

std::optional<int64_t> MaxElementsOf(const FieldDescriptor& field) {
  if (!field.is_repeated()) {
    return std::nullopt;
  }
  if (const auto found = Bounds().find(std::string(field.full_name())); found != Bounds().end()) {
    return found->second;
  }
  const bool grows =
      EncodingOf(field) == Encoding::kVarint && field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL;
  return grows ? std::optional(kMaxIntegers) : std::nullopt;
}

EnvelopeFields::EnvelopeFields(const google::protobuf::Descriptor& type) { Add(type, counted_); }

EnvelopeFields::EnvelopeFields(const google::protobuf::Descriptor& type,
                               std::vector<const Field*>& counted) {
  Add(type, counted);
}

void EnvelopeFields::Add(const google::protobuf::Descriptor& type,
                         std::vector<const Field*>& counted) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& descriptor = *type.field(i);
    Field& field = fields_[static_cast<uint32_t>(descriptor.number())];
    field.descriptor = &descriptor;
    field.encoding = EncodingOf(descriptor);
    if (const std::optional<int64_t> max_elements = MaxElementsOf(descriptor)) {
      field.max_elements = *max_elements;
      field.counter = static_cast<int>(counted.size());
      counted.push_back(&field);
    }
    if (field.encoding == Encoding::kMessage) {
      field.nested.reset(new const EnvelopeFields(*descriptor.message_type(), counted));
    }
  }
}

const EnvelopeFields::Field* EnvelopeFields::Find(uint32_t number) const {
  const auto found = fields_.find(number);
  return found == fields_.end() ? nullptr : &found->second;
}

}  // namespace attention
