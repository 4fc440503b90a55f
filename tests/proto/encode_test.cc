#include "proto/codec/encode.h"

#include "gmock/gmock.h"
#include "proto/codec/tensor.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

// One FP32 [1, 2] tensor and a summary, byte by byte.
TEST(EncodeTest, WritesTheBytesOfTheWireFormat) {
  v1::AttendResponse response;
  Encoder encoder;
  WriteTensorHeader(Dtype::kF32, {1, 2}, *response.mutable_output());
  encoder.Attach(grpc::Slice(Bytes({10, 11, 12, 13, 14, 15, 16, 17})), *response.mutable_output());
  response.mutable_summary()->set_queue_ns(1);
  EXPECT_EQ(Join(encoder.Encode(response)),
            Bytes({0x0a, 16, 0x08, 1,  0x12, 2,  1,  2,    0x1a, 8,    10,
                   11,   12, 13,   14, 15,   16, 17, 0x1a, 2,    0x08, 1}));
}

TEST(EncodeTest, WritesWhatProtobufWouldWithLengthsOfSeveralBytes) {
  const v1::AttendRequest expected = RichRequest();
  v1::AttendRequest request = expected;
  Encoder encoder;
  v1::HiddenStates& input = *request.mutable_hidden_states();
  encoder.Attach(grpc::Slice(expected.hidden_states().memory().data()), *input.mutable_memory());
  encoder.Attach(grpc::Slice(expected.hidden_states().memory_values().data()),
                 *input.mutable_memory_values());
  encoder.Attach(grpc::Slice(expected.hidden_states().tensor().data()), *input.mutable_tensor());
  v1::AttentionOptions& options = *request.mutable_options();
  encoder.Attach(grpc::Slice(expected.options().mask().data()), *options.mutable_mask());
  encoder.Attach(grpc::Slice(expected.options().bias().data()), *options.mutable_bias());
  EXPECT_EQ(Join(encoder.Encode(request)), expected.SerializeAsString());
}

TEST(EncodeTest, WritesRepeatedAndNestedTensorsAsProtobufDoes) {
  v1::AttendResponse response;
  v1::AttendResponse expected;
  Encoder encoder;
  for (const size_t size : {0, 1, 127, 128, 20000}) {
    WriteTensorHeader(Dtype::kF32, {static_cast<int64_t>(size)}, *response.add_weights());
    *expected.add_weights() = response.weights(response.weights_size() - 1);
    expected.mutable_weights(expected.weights_size() - 1)->set_data(std::string(size, 'w'));
    encoder.Attach(grpc::Slice(std::string(size, 'w')),
                   *response.mutable_weights(response.weights_size() - 1));
  }
  EXPECT_EQ(Join(encoder.Encode(response)), expected.SerializeAsString());

  v1::AttendStreamResponse part;
  Encoder part_encoder;
  part.mutable_rows()->set_first_row(300);
  v1::AttendStreamResponse expected_part = part;
  expected_part.mutable_rows()->mutable_output()->set_data("rows");
  part_encoder.Attach(grpc::Slice(std::string("rows")), *part.mutable_rows()->mutable_output());
  EXPECT_EQ(Join(part_encoder.Encode(part)), expected_part.SerializeAsString());
}

TEST(EncodeTest, SendsTheTensorItselfNotACopy) {
  const auto memory = std::make_shared<std::string>(5000, 'z');
  v1::AttendResponse response;
  Encoder encoder;
  encoder.Attach(SharedSlice(memory, memory->data(), memory->size()), *response.mutable_output());
  const grpc::ByteBuffer wire = encoder.Encode(response);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(wire.Dump(&slices).ok());
  const auto is_memory = [&](const grpc::Slice& slice) {
    return reinterpret_cast<const char*>(slice.begin()) == memory->data() &&
           slice.size() == memory->size();
  };
  EXPECT_EQ(std::count_if(slices.begin(), slices.end(), is_memory), 1);
}

TEST(EncodeTest, HoldsTheMemoryUntilTheTransportLetsGo) {
  auto memory = std::make_shared<std::string>(100, 'z');
  const std::weak_ptr<std::string> alive = memory;
  {
    v1::AttendResponse response;
    Encoder encoder;
    const char* data = memory->data();
    encoder.Attach(SharedSlice(std::move(memory), data, 100), *response.mutable_output());
    const grpc::ByteBuffer wire = encoder.Encode(response);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

TEST(EncodeTest, IsReadBackByDecode) {
  v1::AttendRequest request = RichRequest();
  Encoder encoder;
  encoder.Attach(grpc::Slice(std::string(600, 'T')),
                 *request.mutable_hidden_states()->mutable_tensor());
  encoder.Attach(grpc::Slice(std::string(600, 'M')),
                 *request.mutable_hidden_states()->mutable_memory());
  encoder.Attach(grpc::Slice(std::string(600, 'V')),
                 *request.mutable_hidden_states()->mutable_memory_values());
  encoder.Attach(grpc::Slice(std::string(300, 'B')), *request.mutable_options()->mutable_bias());
  encoder.Attach(grpc::Slice(std::string(200, 'X')), *request.mutable_options()->mutable_mask());
  const auto received = Decode<v1::AttendRequest>(encoder.Encode(request));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.hidden_states().tensor())),
            std::string(600, 'T'));
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.hidden_states().memory())),
            std::string(600, 'M'));
  EXPECT_EQ(BytesOf(received->PayloadOf(received->message.options().bias())),
            std::string(300, 'B'));
}

}  // namespace
}  // namespace attention
