// Open Inference messages, byte by byte: field numbers, and tensors that stay where they are.
#include "gmock/gmock.h"
#include "proto/codec/encode.h"
#include "proto/inference/open_inference.pb.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// model_name "m", model_version "1", id "i", parameters {"layer": 2 as int64}, inputs {"x", "FP32",
// [1, 2]} and {"e", "INT32", [0]}, outputs {"output"}, raw_input_contents of 8 bytes and of none.
const std::string kRawData = Bytes({10, 11, 12, 13, 14, 15, 16, 17});
const std::string kRequest =
    Delimited(1, "m") + Delimited(2, "1") + Delimited(3, "i") +
    Delimited(4, Delimited(1, "layer") + Delimited(2, Bytes({0x10, 2}))) +
    Delimited(5, Delimited(1, "x") + Delimited(2, "FP32") + Delimited(3, Bytes({1, 2}))) +
    Delimited(5, Delimited(1, "e") + Delimited(2, "INT32") + Delimited(3, Bytes({0}))) +
    Delimited(6, Delimited(1, "output")) + Delimited(7, kRawData) + Delimited(7, "");

TEST(OpenInferenceTest, RequestsHaveTheProtocolsFieldNumbers) {
  const auto received = Decode<inference::ModelInferRequest>(Cut(kRequest, 5));
  ASSERT_THAT(received, IsOk());
  const inference::ModelInferRequest& message = received->message;
  EXPECT_EQ(message.model_name(), "m");
  EXPECT_EQ(message.model_version(), "1");
  EXPECT_EQ(message.id(), "i");
  EXPECT_EQ(message.parameters().at("layer").int64_param(), 2);
  ASSERT_THAT(message.inputs(), SizeIs(2));
  EXPECT_EQ(message.inputs(0).name(), "x");
  EXPECT_EQ(message.inputs(0).datatype(), "FP32");
  EXPECT_THAT(message.inputs(0).shape(), ElementsAre(1, 2));
  EXPECT_EQ(message.outputs(0).name(), "output");
}

TEST(OpenInferenceTest, RawContentsStayInTheMessage) {
  for (const size_t slice_bytes : {1, 3, 1000}) {
    const auto received = Decode<inference::ModelInferRequest>(Cut(kRequest, slice_bytes));
    ASSERT_THAT(received, IsOk());
    const auto& raw = received->message.raw_input_contents();
    ASSERT_THAT(raw, SizeIs(2));
    EXPECT_EQ(BytesOf(ResolvePayload(raw[0], received->bytes)), kRawData);
    EXPECT_EQ(BytesOf(ResolvePayload(raw[1], received->bytes)), "");
  }
}

TEST(OpenInferenceTest, BytesOfOtherSourcesFollowThoseOfTheMessage) {
  const ReceivedBytes bytes(Cut("message", 3), {grpc::Slice(std::string("and")), grpc::Slice(),
                                                grpc::Slice(std::string("more"))});
  EXPECT_EQ(bytes.size_bytes(), 14);
  std::string all(14, '\0');
  bytes.CopyTo(0, 14, all.data());
  EXPECT_EQ(all, "messageandmore");
  std::string part(6, '\0');
  bytes.CopyTo(6, 6, part.data());
  EXPECT_EQ(part, "eandmo");
}

// One entry for each output, in order, also where it is empty.
TEST(OpenInferenceTest, RepliesHaveTheProtocolsFieldNumbers) {
  inference::ModelInferResponse response;
  Encoder encoder;
  response.set_model_name("m");
  response.set_model_version("1");
  response.set_id("i");
  (*response.mutable_parameters())["f"].set_bool_param(true);
  for (const std::string name : {"a", "b", "c"}) {
    auto& output = *response.add_outputs();
    output.set_name(name);
    output.set_datatype("FP32");
    output.add_shape(2);
  }
  encoder.Attach(grpc::Slice(kRawData), *response.add_raw_output_contents());
  encoder.Attach(grpc::Slice(), *response.add_raw_output_contents());
  encoder.Attach(grpc::Slice(std::string("tail")), *response.add_raw_output_contents());
  const auto output = [](const std::string& name) {
    return Delimited(5, Delimited(1, name) + Delimited(2, "FP32") + Delimited(3, Bytes({2})));
  };
  const std::string expected = Delimited(1, "m") + Delimited(2, "1") + Delimited(3, "i") +
                               Delimited(4, Delimited(1, "f") + Delimited(2, Bytes({0x08, 1}))) +
                               output("a") + output("b") + output("c") + Delimited(6, kRawData) +
                               Delimited(6, "") + Delimited(6, "tail");
  EXPECT_EQ(Join(encoder.Encode(response)), expected);

  inference::ModelStreamInferResponse stream;
  *stream.mutable_infer_response() = response;
  EXPECT_EQ(Join(encoder.Encode(stream)), Delimited(2, expected));
}

}  // namespace
}  // namespace attention
