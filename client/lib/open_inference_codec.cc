#include "client/lib/open_inference_codec.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/malformed_answer.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"
#include "proto/codec/envelope.h"
#include "proto/codec/option_parameters.h"
#include "proto/codec/tensor.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kBareAttention[] = "attention";
constexpr char kOutput[] = "output";

absl::Status CannotAsk(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the Open Inference Protocol cannot ask for ", what));
}

/// Builds a request; remembers the first thing that was wrong.
class InferRequestBuilder {
 public:
  explicit InferRequestBuilder(const SliceOf& slice_of) : slice_of_(slice_of) {}

  absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request) {
    wire_.set_model_name(request.model.empty() ? kBareAttention : request.model);
    if (request.model_version.has_value()) {
      wire_.set_model_version(absl::StrCat(*request.model_version));
    }
    if (request.layer.has_value()) {
      Parameter("layer").set_int64_param(*request.layer);
    }
    RETURN_IF_ERROR(WriteOptions(request));
    std::visit([this](const auto& input) { Write(input); }, request.input);
    if (request.bias != nullptr) {
      Add("bias", request.bias, 4);
    }
    RETURN_IF_ERROR(status_);
    grpc::ByteBuffer bytes = encoder_.Encode(wire_);
    RETURN_IF_ERROR(CheckRequestSize(bytes.Length()));
    return bytes;
  }

 private:
  inference::InferParameter& Parameter(const std::string& name) {
    return (*wire_.mutable_parameters())[name];
  }

  absl::Status WriteOptions(const AttendRequest& request) {
    v1::AttentionOptions rest = request.options;
    for (const FieldDescriptor* const field : OptionParameters()) {
      if (rest.GetReflection()->HasField(rest, field)) {
        WriteOption(rest, *field);
        rest.GetReflection()->ClearField(&rest, field);
      }
    }
    std::vector<const FieldDescriptor*> others;
    rest.GetReflection()->ListFields(rest, &others);
    if (!others.empty()) {
      return CannotAsk(absl::StrCat("options.", others.front()->name()));
    }
    if (request.mask != nullptr) {
      return CannotAsk("a mask");
    }
    if (request.model_output != v1::LAST_HIDDEN_STATES) {
      return CannotAsk(v1::ModelOutput_Name(request.model_output));
    }
    return request.weights_choice.layers().empty() ? absl::OkStatus()
                                                   : CannotAsk("weights of layers");
  }

  void WriteOption(const v1::AttentionOptions& options, const FieldDescriptor& field) {
    const auto& reflection = *options.GetReflection();
    inference::InferParameter& parameter = Parameter(std::string(field.name()));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      parameter.set_bool_param(reflection.GetBool(options, &field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      parameter.set_int64_param(reflection.GetInt64(options, &field));
    } else {
      parameter.set_double_param(reflection.GetDouble(options, &field));
    }
  }

  void Write(const HiddenStatesInput& input) {
    Add("hidden_states", input.tensor, 3);
    Add("lengths", input.lengths);
    if (input.memory != nullptr) {
      Add("memory", input.memory, 3);
      Add("memory_lengths", input.memory_lengths);
    }
    if (input.memory_values != nullptr) {
      status_.Update(CannotAsk("memory_values"));
    }
  }

  void Write(const TokenIdsInput& input) {
    const auto& lengths = input.lengths;
    const auto batch_size = static_cast<int64_t>(std::max<size_t>(1, lengths.size()));
    if (!input.type_ids.empty()) {
      status_.Update(CannotAsk("token types with this client"));
    } else if (std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) !=
               lengths.end()) {
      status_.Update(CannotAsk("sequences of different lengths with this client"));
    } else if (!lengths.empty() && (lengths[0] != std::ssize(input.ids) / batch_size ||
                                    std::ssize(input.ids) % batch_size != 0)) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat("lengths: expected values that sum to the number of ids ", input.ids.size(),
                       ", found ", batch_size, " times ", lengths[0])));
    } else {
      AddInt32("input_ids", {batch_size, std::ssize(input.ids) / batch_size}, input.ids);
    }
  }

  void Write(const TextInput&) { status_.Update(CannotAsk("texts")); }

  void Write(const QueryKeyValueInput& input) {
    if (!input.lengths.empty() || !input.query_offsets.empty()) {
      status_.Update(CannotAsk("lengths or offsets of queries"));
    }
    Add("query", input.query, 4);
    Add("key", input.key, 4);
    Add("value", input.value, 4);
    Add("kv_lengths", input.kv_lengths);
  }

  void Add(const char* name, const Tensor* tensor, size_t rank) {
    if (tensor == nullptr || tensor->shape().size() != rank) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a tensor of rank ", rank, ", found ",
                       tensor == nullptr ? "none" : ShapeText(tensor->shape()))));
      return;
    }
    AddInput(name, std::string(Name(tensor->dtype())), tensor->shape());
    encoder_.Attach(slice_of_(*tensor), *wire_.add_raw_input_contents());
  }

  void Add(const char* name, const std::vector<int64_t>& lengths) {
    const auto wrong = std::find_if(lengths.begin(), lengths.end(), [](int64_t length) {
      return length != static_cast<int32_t>(length);
    });
    if (wrong != lengths.end()) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(name, ": expected values of 32 bits, found ", *wrong)));
    } else if (!lengths.empty()) {
      AddInt32(name, {std::ssize(lengths)}, std::vector<int32_t>(lengths.begin(), lengths.end()));
    }
  }

  void AddInt32(const char* name, const Shape& shape, const std::vector<int32_t>& values) {
    AddInput(name, "INT32", shape);
    encoder_.Attach(grpc::Slice(values.data(), values.size() * sizeof(int32_t)),
                    *wire_.add_raw_input_contents());
  }

  void AddInput(const char* name, const std::string& datatype, const Shape& shape) {
    inference::ModelInferRequest::InferInputTensor& input = *wire_.add_inputs();
    input.set_name(name);
    input.set_datatype(datatype);
    input.mutable_shape()->Add(shape.begin(), shape.end());
  }

  const SliceOf& slice_of_;
  inference::ModelInferRequest wire_;
  Encoder encoder_;
  absl::Status status_;
};

/// Returns the index of the output to read.
absl::StatusOr<int> IndexOfOutput(const inference::ModelInferResponse& response) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() == kOutput || response.outputs_size() == 1) {
      return i;
    }
  }
  return MalformedAnswer(absl::StrCat("outputs: expected one called \"", kOutput, "\", found ",
                                      response.outputs_size(), " others"));
}

std::optional<v1::DataType> DtypeOf(const std::string& datatype) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kF16}) {
    if (Name(dtype) == datatype) {
      return ToWire(dtype);
    }
  }
  return std::nullopt;
}

absl::StatusOr<ReceivedTensor> FindOutput(const grpc::ByteBuffer& bytes) {
  const absl::StatusOr<Received<inference::ModelInferResponse>> received =
      Decode<inference::ModelInferResponse>(bytes);
  if (!received.ok()) {
    return MalformedAnswer(std::string(received.status().message()));
  }
  const inference::ModelInferResponse& response = received->message;
  ASSIGN_OR_RETURN(const int index, IndexOfOutput(response));
  const auto& output = response.outputs(index);
  const std::optional<v1::DataType> dtype = DtypeOf(output.datatype());
  if (!dtype.has_value()) {
    return MalformedAnswer(
        absl::StrCat("output: expected FP32, BF16 or FP16, found \"", output.datatype(), "\""));
  }
  if (index >= response.raw_output_contents_size()) {
    return MalformedAnswer(absl::StrCat("output: expected raw contents, found those of ",
                                        response.raw_output_contents_size(), " outputs"));
  }
  v1::Tensor header;
  header.set_dtype(*dtype);
  *header.mutable_shape() = output.shape();
  absl::StatusOr<ReceivedTensor> tensor = ReadTensor(
      header, ResolvePayload(response.raw_output_contents(index), received->bytes), kOutput);
  return tensor.ok() ? std::move(tensor) : MalformedAnswer(std::string(tensor.status().message()));
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeInferRequest(const AttendRequest& request,
                                                    const SliceOf& slice_of) {
  return InferRequestBuilder(slice_of).Encode(request);
}

absl::StatusOr<AttendResult> DecodeInferAnswer(const grpc::ByteBuffer& bytes) {
  ASSIGN_OR_RETURN(const ReceivedTensor tensor, FindOutput(bytes));
  AttendResult result;
  result.output = CopyTensor(tensor);
  return result;
}

absl::Status CheckInferAnswer(const grpc::ByteBuffer& bytes) { return FindOutput(bytes).status(); }

}  // namespace attention
