// What the server refuses before any work, with which code and which words.
#include <limits>

#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/fill.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

class RefusalTest : public ::testing::Test {
 protected:
  grpc::Status Attend(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    return client_.Attend(request, &response);
  }
  /// Both methods refuse alike.
  void ExpectInvalid(const v1::AttendRequest& request, const std::string& text) {
    grpc::ClientContext context;
    v1::AttendResponse response;
    EXPECT_THAT(client_.stub().Attend(&context, request, &response),
                IsRefusal(StatusCode::INVALID_ARGUMENT, text));
    EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 0)
        << "it will not be valid later";
    std::vector<v1::AttendStreamResponse> parts;
    EXPECT_THAT(client_.AttendStream(request, &parts),
                IsRefusal(StatusCode::INVALID_ARGUMENT, text));
    EXPECT_TRUE(parts.empty());
  }

  static v1::AttendRequest Packed(int64_t rows, const std::vector<int64_t>& lengths) {
    return DemoRequest(SeededTensor(1, Dtype::kF32, {rows, kDemoWidth}), lengths);
  }
  static v1::AttendRequest Qkv(const Shape& query, const Shape& key, const Shape& value) {
    return QkvRequest(SeededTensor(1, Dtype::kF32, query), SeededTensor(2, Dtype::kF32, key),
                      SeededTensor(3, Dtype::kF32, value));
  }

  InProcessServer server_{{.max_message_bytes = 4 << 20, .max_queue_bytes = 8 << 20}};
  AttendClient client_{server_.NewChannel()};
};

TEST_F(RefusalTest, ModelsThatAreNotServed) {
  v1::AttendRequest request = Packed(1, {});
  request.set_model("bert");
  EXPECT_THAT(Attend(request),
              IsRefusal(StatusCode::NOT_FOUND, R"(model: expected one of "demo", found "bert")"));
  grpc::ClientContext context;
  v1::GetModelRequest get;
  get.set_model("bert");
  v1::Model model;
  EXPECT_THAT(client_.stub().GetModel(&context, get, &model),
              IsRefusal(StatusCode::NOT_FOUND, R"(model: expected one of "demo", found "bert")"));
  get.set_model("demo");
  get.set_version(7);
  grpc::ClientContext another;
  EXPECT_THAT(client_.stub().GetModel(&another, get, &model),
              IsRefusal(StatusCode::NOT_FOUND, R"(version: expected 1 of model "demo", found 7)"));
}

TEST_F(RefusalTest, APriorityOfAnotherName) {
  grpc::ClientContext context;
  context.AddMetadata("attend-priority", "urgent");
  v1::AttendResponse response;
  EXPECT_THAT(
      client_.stub().Attend(&context, Packed(1, {}), &response),
      IsRefusal(StatusCode::INVALID_ARGUMENT,
                R"(metadata attend-priority: expected high, normal or low, found "urgent")"));
}

TEST_F(RefusalTest, RequestsWithoutInput) {
  v1::AttendRequest request;
  request.set_model("demo");
  ExpectInvalid(request,
                "input: expected hidden_states, token_ids, text or query_key_value, found none of "
                "them");
  request.mutable_hidden_states();
  ExpectInvalid(request, "hidden_states.tensor: expected a tensor, found none");
}

TEST_F(RefusalTest, BytesThatAreNoRequest) {
  v1::AttendRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddGroup(100);
  ExpectInvalid(
      request,
      "expected a message attention.v1.AttendRequest, found 4 bytes that cannot be parsed");
}

TEST_F(RefusalTest, TensorsThatLie) {
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {2, 5, kDemoWidth}));
  v1::Tensor& tensor = *request.mutable_hidden_states()->mutable_tensor();
  tensor.mutable_data()->resize(20476);
  ExpectInvalid(
      request, "hidden_states.tensor.data: expected 20480 bytes for FP32 [2, 5, 512], found 20476");
  tensor.set_dtype(v1::DATA_TYPE_UNSPECIFIED);
  ExpectInvalid(request,
                "hidden_states.tensor.dtype: expected FP32 (1), BF16 (2) or FP16 (3), found "
                "DATA_TYPE_UNSPECIFIED");
}

TEST_F(RefusalTest, HiddenStatesOfAnotherShape) {
  ExpectInvalid(DemoRequest(SeededTensor(1, Dtype::kF32, {5, 511})),
                "hidden_states.tensor.shape: expected rows of 512, found [5, 511]");
  ExpectInvalid(DemoRequest(SeededTensor(1, Dtype::kF32, {kDemoWidth})),
                "hidden_states.tensor.shape: expected rank 3 (padded) or 2 (packed), found [512]");
}

TEST_F(RefusalTest, LengthsThatDoNotFit) {
  ExpectInvalid(Packed(6, {2, 3}),
                "hidden_states.lengths: expected a sum of 6, the packed rows, found 5");
  ExpectInvalid(Packed(6, {7, -1}), "hidden_states.lengths[0]: expected 0 to 6, found 7");
  ExpectInvalid(Packed(6, {6, -1}), "hidden_states.lengths[1]: expected 0 to 6, found -1");
  const Tensor padded = SeededTensor(1, Dtype::kF32, {2, 3, kDemoWidth});
  ExpectInvalid(DemoRequest(padded, {3, 4}), "hidden_states.lengths[1]: expected 0 to 3, found 4");
  ExpectInvalid(
      DemoRequest(padded, {3}),
      "hidden_states.lengths: expected no value or one for each of the 2 sequences, found 1");
}

TEST_F(RefusalTest, MemoryThatDoesNotBelongToTheInput) {
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {2, 3, kDemoWidth}));
  v1::HiddenStates& input = *request.mutable_hidden_states();
  input.add_memory_lengths(3);
  ExpectInvalid(request,
                "hidden_states.memory_lengths: expected none without memory, found 1 values");
  input.clear_memory_lengths();
  const auto with_memory = [&](const Tensor& memory) {
    ToWireTensor(memory, input.mutable_memory());
    return request;
  };
  ExpectInvalid(with_memory(SeededTensor(2, Dtype::kBf16, {2, 4, kDemoWidth})),
                "hidden_states.memory.dtype: expected FP32 as hidden_states.tensor, found BF16");
  ExpectInvalid(
      with_memory(SeededTensor(2, Dtype::kF32, {8, kDemoWidth})),
      "hidden_states.memory.shape: expected rank 3 as hidden_states.tensor, found [8, 512]");
  ExpectInvalid(with_memory(SeededTensor(2, Dtype::kF32, {3, 4, kDemoWidth})),
                "hidden_states.memory.shape: expected a batch of 2 as hidden_states.tensor, found "
                "[3, 4, 512]");
  ExpectInvalid(with_memory(SeededTensor(2, Dtype::kF32, {2, 4, 510})),
                "hidden_states.memory.shape: expected rows of 512, found [2, 4, 510]");
  v1::AttendRequest two_sequences = Packed(5, {2, 3});
  ToWireTensor(SeededTensor(2, Dtype::kF32, {4, kDemoWidth}),
               two_sequences.mutable_hidden_states()->mutable_memory());
  ExpectInvalid(two_sequences,
                "hidden_states.memory_lengths: expected 2 values, one for each sequence, found 0");
}

TEST_F(RefusalTest, TokensThatTheModelDoesNotHave) {
  v1::AttendRequest request;
  request.set_model("demo");
  v1::TokenIds& tokens = *request.mutable_token_ids();
  tokens.add_ids(1);
  tokens.add_ids(1000);
  EXPECT_THAT(Attend(request).error_message(), HasSubstr("expected 0 to 999, found 1000"));
  EXPECT_EQ(Attend(request).error_code(), StatusCode::INVALID_ARGUMENT);
  tokens.set_ids(1, -1);
  EXPECT_THAT(Attend(request).error_message(), HasSubstr("expected 0 to 999, found -1"));
  Fill(tokens.mutable_ids(), 2049, 0);
  tokens.set_ids(1, 0);
  EXPECT_THAT(Attend(request).error_message(), HasSubstr("2048"));
  tokens.add_lengths(2000);
  ExpectInvalid(request, "token_ids.lengths: expected a sum of 2049, the packed rows, found 2000");
}

TEST_F(RefusalTest, ScalesThatAreNoNumber) {
  v1::AttendRequest request = Packed(1, {});
  request.mutable_options()->set_scale(std::numeric_limits<double>::infinity());
  ExpectInvalid(request, "options.scale: expected a finite FP32 number, found inf");
  request.mutable_options()->set_scale(1e300);
  ExpectInvalid(request, "options.scale: expected a number that FP32 can hold, found 1e+300");
}

TEST_F(RefusalTest, QueryKeyAndValueThatDoNotFitTogether) {
  const Shape query = {1, 2, 4, 16};
  const Shape key = {1, 3, 2, 16};
  const Shape value = {1, 3, 2, 8};
  EXPECT_TRUE(Attend(Qkv(query, key, value)).ok());
  ExpectInvalid(Qkv(query, {2, 3, 2, 16}, value),
                "query_key_value.key.shape[0]: expected 1, found [2, 3, 2, 16]");
  ExpectInvalid(Qkv(query, key, {1, 4, 2, 8}),
                "query_key_value.value.shape[1]: expected 3, found [1, 4, 2, 8]");
  ExpectInvalid(Qkv(query, key, {1, 3, 1, 8}),
                "query_key_value.value.shape[2]: expected 2, found [1, 3, 1, 8]");
  ExpectInvalid(Qkv(query, {1, 3, 2, 8}, value),
                "query_key_value.key.shape[3]: expected 16, found [1, 3, 2, 8]");
  ExpectInvalid(Qkv({1, 2, 3, 16}, key, value),
                "query_key_value.query.shape: expected a number of heads that is a positive "
                "multiple of the key's 2, "
                "found [1, 2, 3, 16]");
  ExpectInvalid(Qkv({1, 2, 0, 16}, {1, 3, 0, 16}, {1, 3, 0, 8}),
                "query_key_value.key.shape: expected at least 1 head, found [1, 3, 0, 16]");
  ExpectInvalid(Qkv({1, 2, 0, 16}, key, value),
                "query_key_value.query.shape: expected a number of heads that is a positive "
                "multiple of the key's 2, "
                "found [1, 2, 0, 16]");
  ExpectInvalid(Qkv(query, {3, 2, 16}, value),
                "query_key_value.key.shape: expected rank 4 as query, found [3, 2, 16]");
  EXPECT_THAT(Attend(Qkv({1, 2, 4, 0}, {1, 3, 2, 0}, value)).error_message(),
              HasSubstr("head_dim: expected 1 to 512, found 0"));
  v1::AttendRequest odd = Qkv({1, 2, 4, 15}, {1, 3, 2, 15}, value);
  odd.mutable_options()->mutable_rotary();
  EXPECT_THAT(Attend(odd).error_message(), HasSubstr("rotary.dim: expected an even number of at "
                                                     "most 15, a head's elements, found none"));
  v1::AttendRequest request = Qkv(query, key, value);
  request.mutable_query_key_value()->mutable_value()->set_dtype(v1::BF16);
  request.mutable_query_key_value()->mutable_value()->mutable_data()->resize(96);
  ExpectInvalid(request, "query_key_value.value.dtype: expected FP32 as query, found BF16");
  request.mutable_query_key_value()->clear_key();
  ExpectInvalid(request, "query_key_value.key: expected a tensor, found none");
}

TEST_F(RefusalTest, QueryKeyValueForAModelAndOffsetsThatDoNotFit) {
  v1::AttendRequest request = Qkv({1, 2, 4, 16}, {1, 3, 2, 16}, {1, 3, 2, 8});
  request.set_model("demo");
  ExpectInvalid(request, R"(model: expected none with query_key_value, found "demo")");
  request.clear_model();
  v1::QueryKeyValue& input = *request.mutable_query_key_value();
  input.add_query_offsets(1);
  input.add_query_offsets(1);
  ExpectInvalid(
      request,
      "query_key_value.query_offsets: expected no value or one for each of 1 sequences, found 2");
  input.clear_query_offsets();
  input.add_query_offsets(std::numeric_limits<int64_t>::min());
  ExpectInvalid(request,
                "query_key_value.query_offsets[0]: expected -1099511627776 to 1099511627776, found "
                "-9223372036854775808");
  input.clear_query_offsets();
  input.add_kv_lengths(4);
  ExpectInvalid(request, "query_key_value.kv_lengths[0]: expected 0 to 3, found 4");
}

TEST_F(RefusalTest, RepliesThatWouldBeTooLarge) {
  v1::AttendRequest request = Packed(900, {});
  request.mutable_options()->set_return_weights(true);
  // 900 * 512 floats of output and 8 * 900 * 900 of weights.
  EXPECT_THAT(
      Attend(request),
      IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                "the reply would have 27763200 bytes; the maximum is 4194304 (--max-message-bytes; "
                "AttendStream may send more)"));
  std::vector<v1::AttendStreamResponse> parts;
  EXPECT_THAT(
      client_.AttendStream(request, &parts),
      IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                "the reply would have 27763200 bytes; the maximum is 8388608 (--max-queue-bytes)"));
}

TEST_F(RefusalTest, ShapesThatNameMoreThanAnyoneCanAnswer) {
  v1::AttendRequest request = Qkv({1, 2, 4, 16}, {1, 3, 2, 16}, {1, 3, 2, 8});
  const auto claim = [&](v1::Tensor* tensor, const Shape& shape) {
    tensor->clear_data();
    WriteTensorHeader(Dtype::kF32, shape, *tensor);
  };
  v1::QueryKeyValue& input = *request.mutable_query_key_value();
  constexpr int64_t kMany = int64_t{1} << 40;
  claim(input.mutable_query(), {kMany, 0, 4, 16});
  claim(input.mutable_key(), {kMany, 0, 2, 16});
  claim(input.mutable_value(), {kMany, 0, 2, 16});
  EXPECT_THAT(Attend(request),
              IsRefusal(StatusCode::RESOURCE_EXHAUSTED,
                        "query_key_value.lengths: expected at most 4096 sequences in a request, "
                        "found 1099511627776"));
}

TEST_F(RefusalTest, MessagesPastTheLimit) {
  const grpc::Status status = Attend(Packed(2100, {}));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("vs. 4194304"));
}

TEST_F(RefusalTest, RequestsOfAnExpiredDeadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::AttendResponse response;
  EXPECT_EQ(client_.stub().Attend(&context, Packed(1, {}), &response).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace attention
