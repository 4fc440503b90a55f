#include "gmock/gmock.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::IsEmpty;

// AttendRequest{hidden_states: {tensor: {dtype: FP32, shape: [1, 2], data: ...}}}
const std::string kTensor =
    Bytes({0x08, 1, 0x12, 2, 1, 2, 0x1a, 8, 10, 11, 12, 13, 14, 15, 16, 17});
const std::string kTensorData = Bytes({10, 11, 12, 13, 14, 15, 16, 17});

TEST(DecodeTest, LeavesATensorsBytesInTheMessage) {
  const std::string wire = Delimited(2, Delimited(1, kTensor));
  for (const size_t slice_bytes : {1, 3, 7, 1000}) {
    const auto received = Decode<v1::AttendRequest>(Cut(wire, slice_bytes));
    ASSERT_THAT(received, IsOk());
    const v1::Tensor& tensor = received->message.hidden_states().tensor();
    EXPECT_EQ(tensor.dtype(), v1::FP32);
    EXPECT_THAT(tensor.shape(), ::testing::ElementsAre(1, 2));
    EXPECT_THAT(BytesOf(received->PayloadOf(tensor)), Eq(kTensorData));
  }
}

TEST(DecodeTest, AcceptsFieldsInAnyOrder) {
  const std::string tensor = Bytes({0x1a, 8}) + kTensorData + Bytes({0x12, 2, 1, 2, 0x08, 1});
  const std::string wire =
      Delimited(2, Bytes({0x10, 1}) + Delimited(1, tensor)) + Delimited(1, "demo");
  const auto received = Decode<v1::AttendRequest>(Cut(wire));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->message.model(), "demo");
  EXPECT_EQ(received->message.hidden_states().lengths(0), 1);
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.hidden_states().tensor())), kTensorData);
}

TEST(DecodeTest, MergesAMessageThatComesInParts) {
  const std::string wire =
      Delimited(2, Delimited(1, Bytes({0x08, 1})) + Delimited(1, Bytes({0x1a, 1, 'x'}))) +
      Delimited(2, Delimited(1, Bytes({0x1a, 8}) + kTensorData)) +
      Delimited(2, Delimited(1, Bytes({0x12, 2, 1, 2})));
  const auto received = Decode<v1::AttendRequest>(Cut(wire));
  ASSERT_THAT(received, IsOk());
  const v1::Tensor& tensor = received->message.hidden_states().tensor();
  EXPECT_EQ(tensor.dtype(), v1::FP32);
  EXPECT_EQ(tensor.shape_size(), 2);
  EXPECT_EQ(BytesOf(received->PayloadOf(tensor)), kTensorData) << "the last occurrence wins";
}

TEST(DecodeTest, ForgetsTheTensorOfAOneofMemberThatLost) {
  const std::string wire = Delimited(2, Delimited(1, kTensor)) +
                           Delimited(4, Delimited(1, Bytes({0x08, 2}))) + Delimited(2, "");
  const auto received = Decode<v1::AttendRequest>(Cut(wire));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->message.input_case(), v1::AttendRequest::kHiddenStates);
  EXPECT_FALSE(received->message.hidden_states().has_tensor());
}

TEST(DecodeTest, KeepsRepeatedTensorsApart) {
  const std::string wire = Delimited(2, Bytes({0x1a, 1, 'a'})) + Delimited(1, kTensor) +
                           Delimited(2, "") + Delimited(2, Bytes({0x1a, 2, 'c', 'd'}));
  const auto received = Decode<v1::AttendResponse>(Cut(wire, 2));
  ASSERT_THAT(received, IsOk());
  ASSERT_EQ(received->message.weights_size(), 3);
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.weights(0))), "a");
  EXPECT_THAT(BytesOf(received->PayloadOf(received->message.weights(1))), IsEmpty());
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.weights(2))), "cd");
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.output())), kTensorData);
}

TEST(DecodeTest, ReadsWhatProtobufWritesHoweverItIsCut) {
  const v1::AttendRequest request = RichRequest();
  for (const size_t slice_bytes : {1, 2, 5, 64, 599, 4096}) {
    const auto received = Decode<v1::AttendRequest>(Cut(request.SerializeAsString(), slice_bytes));
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(Filled(*received).SerializeAsString(), request.SerializeAsString());
  }
}

TEST(DecodeTest, SkipsFieldsItDoesNotKnow) {
  const std::string unknown = Bytes({0x98, 0x06, 5}) + Bytes({0x9a, 0x06, 2, 'h', 'i'}) +
                              Bytes({0x9d, 0x06, 1, 2, 3, 4}) +
                              Bytes({0x99, 0x06, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto received = Decode<v1::AttendRequest>(Cut(
      unknown + Delimited(2, unknown + Delimited(1, unknown + kTensor + unknown)) + unknown, 3));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.hidden_states().tensor())), kTensorData);
}

TEST(DecodeTest, TakesNoBytesForAnEmptyMessage) {
  const auto received = Decode<v1::AttendRequest>(grpc::ByteBuffer());
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->message.ByteSizeLong(), 0);
}

TEST(DecodeTest, OutlivesTheBufferItCameFrom) {
  absl::StatusOr<Received<v1::AttendRequest>> received = absl::UnknownError("");
  {
    const grpc::ByteBuffer buffer = Cut(Delimited(2, Delimited(1, kTensor)), 4);
    received = Decode<v1::AttendRequest>(buffer);
  }
  ASSERT_THAT(received, IsOk());
  const Payload payload = received->PayloadOf(received->message.hidden_states().tensor());
  received = absl::UnknownError("");
  EXPECT_EQ(BytesOf(payload), kTensorData);
}

}  // namespace
}  // namespace attention
