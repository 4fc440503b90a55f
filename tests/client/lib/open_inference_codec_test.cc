#include "client/lib/open_inference_codec.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "proto/inference/open_inference.pb.h"
#include "tests/support/byte_buffer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BytesOf(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.data()), tensor.size_bytes());
}

/// As plain protobuf reads it.
inference::ModelInferRequest Encoded(const AttendRequest& request) {
  const auto bytes = EncodeInferRequest(request);
  EXPECT_THAT(bytes, IsOk());
  inference::ModelInferRequest message;
  EXPECT_TRUE(message.ParseFromString(Join(*bytes)));
  return message;
}

grpc::ByteBuffer Wire(const inference::ModelInferResponse& response) {
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

/// FP32 [1, 2].
inference::ModelInferResponse Response(const std::string& name) {
  inference::ModelInferResponse response;
  auto& output = *response.add_outputs();
  output.set_name(name);
  output.set_datatype("FP32");
  output.add_shape(1);
  output.add_shape(2);
  const float values[] = {1.5f, -2.0f};
  response.add_raw_output_contents(values, sizeof(values));
  return response;
}

TEST(OpenInferenceCodecTest, HiddenStatesWithEverything) {
  const Tensor rows = SeededTensor(1, Dtype::kBf16, {2, 3, 4}),
               memory = SeededTensor(2, Dtype::kBf16, {2, 5, 4});
  AttendRequest request;
  request.model = "m";
  request.model_version = 7;
  request.layer = 3;
  request.input = HiddenStatesInput{&rows, {3, 2}, &memory, {5, 1}};
  request.options.set_causal(true);
  request.options.set_scale(0.5);
  request.options.set_softcap(30.0);
  request.options.set_window(64);
  request.options.set_window_dilation(4);
  const inference::ModelInferRequest message = Encoded(request);
  EXPECT_EQ(message.model_name(), "m");
  EXPECT_EQ(message.model_version(), "7");
  ASSERT_EQ(message.parameters_size(), 6);
  EXPECT_EQ(message.parameters().at("layer").int64_param(), 3);
  EXPECT_TRUE(message.parameters().at("causal").bool_param());
  EXPECT_EQ(message.parameters().at("scale").double_param(), 0.5);
  EXPECT_EQ(message.parameters().at("softcap").double_param(), 30.0);
  EXPECT_EQ(message.parameters().at("window").int64_param(), 64);
  EXPECT_EQ(message.parameters().at("window_dilation").int64_param(), 4);
  ASSERT_EQ(message.inputs_size(), 4);
  ASSERT_EQ(message.raw_input_contents_size(), 4);
  EXPECT_EQ(message.inputs(0).name(), "hidden_states");
  EXPECT_EQ(message.inputs(0).datatype(), "BF16");
  EXPECT_THAT(message.inputs(0).shape(), ElementsAre(2, 3, 4));
  EXPECT_EQ(message.raw_input_contents(0), BytesOf(rows));
  EXPECT_EQ(message.inputs(1).name(), "lengths");
  EXPECT_EQ(message.inputs(1).datatype(), "INT32");
  EXPECT_THAT(message.inputs(1).shape(), ElementsAre(2));
  EXPECT_EQ(message.raw_input_contents(1), std::string("\3\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(message.inputs(2).name(), "memory");
  EXPECT_EQ(message.raw_input_contents(2), BytesOf(memory));
  EXPECT_EQ(message.inputs(3).name(), "memory_lengths");
  EXPECT_EQ(message.raw_input_contents(3), std::string("\5\0\0\0\1\0\0\0", 8));
}

TEST(OpenInferenceCodecTest, NothingIsSaidThatWasNotAsked) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 3, 4});
  AttendRequest request;
  request.model = "m";
  request.input = HiddenStatesInput{&rows};
  const inference::ModelInferRequest message = Encoded(request);
  EXPECT_EQ(message.parameters_size(), 0);
  EXPECT_EQ(message.inputs_size(), 1);
  EXPECT_EQ(message.outputs_size(), 0);
  EXPECT_EQ(message.model_version(), "");
}

TEST(OpenInferenceCodecTest, TokenIdsAreARectangle) {
  AttendRequest request;
  request.model = "m";
  request.input = TokenIdsInput{{1, 2, 3, 4, 5, 6}, {3, 3}, {}};
  const inference::ModelInferRequest message = Encoded(request);
  EXPECT_EQ(message.inputs(0).name(), "input_ids");
  EXPECT_EQ(message.inputs(0).datatype(), "INT32");
  EXPECT_THAT(message.inputs(0).shape(), ElementsAre(2, 3));
  EXPECT_EQ(message.raw_input_contents(0).size(), 24u);
  request.input = TokenIdsInput{{1, 2, 3}, {}, {}};
  EXPECT_THAT(Encoded(request).inputs(0).shape(), ElementsAre(1, 3));
  request.input = TokenIdsInput{{1, 2, 3}, {1, 2}, {}};
  EXPECT_THAT(EncodeInferRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("different lengths")));
}

// The shape is all that the server sees of them.
TEST(OpenInferenceCodecTest, LengthsOfTokenIdsAddUpToTheirNumber) {
  AttendRequest request;
  for (const TokenIdsInput& ids :
       {TokenIdsInput{{1, 2, 3, 4}, {3, 3}, {}}, TokenIdsInput{{1, 2, 3, 4, 5}, {2, 2}, {}},
        TokenIdsInput{{1, 2, 3, 4}, {3}, {}}}) {
    request.input = ids;
    EXPECT_THAT(EncodeInferRequest(request),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("lengths: expected values that sum to the number of ids")));
  }
}

TEST(OpenInferenceCodecTest, QueryKeyAndValueAreTheModelAttention) {
  const Tensor query = SeededTensor(1, Dtype::kF16, {1, 2, 4, 8}),
               key = SeededTensor(2, Dtype::kF16, {1, 3, 2, 8}),
               value = SeededTensor(3, Dtype::kF16, {1, 3, 2, 16}),
               bias = SeededTensor(4, Dtype::kF32, {1, 1, 2, 3});
  AttendRequest request;
  request.input = QueryKeyValueInput{&query, &key, &value, {}, {2}, {}};
  request.bias = &bias;
  const inference::ModelInferRequest message = Encoded(request);
  EXPECT_EQ(message.model_name(), "attention");
  std::vector<std::string> names;
  for (const auto& input : message.inputs()) {
    names.push_back(input.name() + " " + input.datatype());
  }
  EXPECT_THAT(names,
              ElementsAre("query FP16", "key FP16", "value FP16", "kv_lengths INT32", "bias FP32"));
  EXPECT_EQ(message.raw_input_contents(2), BytesOf(value));
  EXPECT_EQ(message.raw_input_contents(4), BytesOf(bias));
}

TEST(OpenInferenceCodecTest, RefusesWhatTheProtocolHasNoWordsFor) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 3, 4}),
               packed = SeededTensor(1, Dtype::kF32, {3, 4});
  const MaskTensor mask{{1, 1, 3, 3}, std::vector<uint8_t>(9)};
  const auto expect = [&rows](const char* text, auto change) {
    AttendRequest request;
    request.model = "m";
    request.input = HiddenStatesInput{&rows};
    change(request);
    EXPECT_THAT(EncodeInferRequest(request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  expect("options.prefix", [](AttendRequest& request) { request.options.set_prefix(2); });
  expect("a mask", [&](AttendRequest& request) { request.mask = &mask; });
  expect("LAST_LOGITS", [](AttendRequest& request) { request.model_output = v1::LAST_LOGITS; });
  expect("weights of layers", [](AttendRequest& request) { request.weights_choice.add_layers(0); });
  expect("texts", [](AttendRequest& request) { request.input = TextInput{{"a"}}; });
  expect("hidden_states: expected a tensor of rank 3, found [3, 4]",
         [&](AttendRequest& request) { request.input = HiddenStatesInput{&packed}; });
  expect("lengths: expected values of 32 bits, found 4294967298", [&](AttendRequest& request) {
    request.input = HiddenStatesInput{&rows, {(int64_t{1} << 32) + 2}};
  });
  expect("hidden_states: expected a tensor of rank 3, found none",
         [](AttendRequest& request) { request.input = HiddenStatesInput{}; });
  expect("token types",
         [](AttendRequest& request) { request.input = TokenIdsInput{{1}, {}, {0}}; });
}

TEST(OpenInferenceCodecTest, ReadsTheOutputWhateverElseThereIs) {
  inference::ModelInferResponse response = Response("weights");
  const inference::ModelInferResponse only = Response("y");
  response.MergeFrom(Response("output"));
  for (const auto& message : {response, only}) {
    EXPECT_THAT(CheckInferAnswer(Wire(message)), IsOk());
    const auto result = DecodeInferAnswer(Wire(message));
    ASSERT_THAT(result, IsOk());
    EXPECT_THAT(result->output.shape(), ElementsAre(1, 2));
    EXPECT_EQ(result->output.dtype(), Dtype::kF32);
    EXPECT_EQ(result->output.as<float>()[1], -2.0f);
  }
}

TEST(OpenInferenceCodecTest, AnswersThatDoNotHoldTogetherAreNotBelieved) {
  const auto expect = [](const char* text, auto change) {
    inference::ModelInferResponse response = Response("output");
    change(response);
    EXPECT_THAT(CheckInferAnswer(Wire(response)),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(text)));
    EXPECT_THAT(DecodeInferAnswer(Wire(response)),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(text)));
  };
  using Message = inference::ModelInferResponse;
  expect("found 0 others", [](Message& message) { message.clear_outputs(); });
  expect("found 2 others", [](Message& message) {
    message.mutable_outputs(0)->set_name("a");
    message.add_outputs()->set_name("b");
  });
  expect("found \"INT8\"",
         [](Message& message) { message.mutable_outputs(0)->set_datatype("INT8"); });
  expect("raw contents", [](Message& message) { message.clear_raw_output_contents(); });
  expect("output", [](Message& message) { message.mutable_outputs(0)->set_shape(1, 3); });
  const grpc::Slice garbage("\xff\xff");
  EXPECT_THAT(CheckInferAnswer(grpc::ByteBuffer(&garbage, 1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
}

}  // namespace
}  // namespace attention
