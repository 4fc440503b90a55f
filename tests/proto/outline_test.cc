// The small fields of a message, read without the rest.
#include "proto/codec/outline.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/inference/open_inference.pb.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/fill.h"

namespace attention {
namespace {

template <typename M>
bool Read(const std::string& bytes, M& outline) {
  return ReadOutline(Cut(bytes, 100), EnvelopeFieldsOf<M>(), outline);
}

v1::DecodeRequest Step() {
  v1::DecodeRequest request;
  request.set_id(1ull << 63);
  request.set_sequence(-7);
  Fill(request.mutable_step()->mutable_token_ids()->mutable_ids(), 100'000, 12'345);
  return request;
}

TEST(OutlineTest, HasNumbersAndEmptyParts) {
  v1::DecodeRequest outline;
  ASSERT_TRUE(Read(Step().SerializeAsString(), outline));
  v1::DecodeRequest expected;
  expected.set_id(1ull << 63);
  expected.set_sequence(-7);
  expected.mutable_step();
  EXPECT_EQ(outline.SerializeAsString(), expected.SerializeAsString());
}

TEST(OutlineTest, TheLastOfAFieldCounts) {
  v1::DecodeRequest later;
  later.set_id(5);
  later.mutable_fork();
  v1::DecodeRequest outline;
  ASSERT_TRUE(Read(Step().SerializeAsString() + later.SerializeAsString(), outline));
  EXPECT_EQ(outline.id(), 5);
  EXPECT_EQ(outline.sequence(), -7);
  EXPECT_TRUE(outline.has_fork());
}

TEST(OutlineTest, HasStringsAndNoPayloads) {
  inference::ModelInferRequest request;
  request.set_id("id");
  request.set_model_name("model");
  request.add_inputs()->set_name("input_ids");
  request.add_raw_input_contents(std::string(100'000, 'x'));
  inference::ModelInferRequest outline;
  ASSERT_TRUE(Read(request.SerializeAsString(), outline));
  inference::ModelInferRequest expected;
  expected.set_id("id");
  expected.set_model_name("model");
  expected.add_inputs();
  EXPECT_EQ(outline.SerializeAsString(), expected.SerializeAsString());
}

TEST(OutlineTest, TakesLittleMemory) {
  inference::ModelInferRequest request;
  request.set_id(std::string(4000, 'i'));
  inference::ModelInferRequest outline;
  EXPECT_TRUE(Read(request.SerializeAsString(), outline));
  EXPECT_EQ(outline.id(), request.id());
  request.set_id(std::string(5000, 'i'));
  EXPECT_FALSE(Read(request.SerializeAsString(), outline));
  request.set_id(std::string(3000, 'i'));
  EXPECT_FALSE(Read(request.SerializeAsString() + request.SerializeAsString(), outline));
}

TEST(OutlineTest, ReadsFewFields) {
  v1::DecodeRequest request = Step();
  google::protobuf::UnknownFieldSet& unknown =
      *request.GetReflection()->MutableUnknownFields(&request);
  for (int i = 0; i < 997; ++i) {
    unknown.AddVarint(99, 1);
  }
  v1::DecodeRequest outline;
  EXPECT_TRUE(Read(request.SerializeAsString(), outline));
  unknown.AddVarint(99, 1);
  EXPECT_FALSE(Read(request.SerializeAsString(), outline));
}

TEST(OutlineTest, UnknownFieldsAreLeftOut) {
  v1::DecodeRequest request;
  google::protobuf::UnknownFieldSet& unknown =
      *request.GetReflection()->MutableUnknownFields(&request);
  unknown.AddVarint(90, 1);
  unknown.AddFixed32(91, 1);
  unknown.AddFixed64(92, 1);
  unknown.AddLengthDelimited(93, std::string(10'000, 'x'));
  unknown.AddLengthDelimited(v1::DecodeRequest::kIdFieldNumber, "\x05");
  v1::DecodeRequest outline;
  ASSERT_TRUE(Read(request.SerializeAsString(), outline));
  EXPECT_EQ(outline.SerializeAsString(), "");
}

TEST(OutlineTest, MalformedMessagesHaveNone) {
  const std::string bytes = Step().SerializeAsString();
  v1::DecodeRequest outline;
  EXPECT_FALSE(Read(bytes.substr(0, bytes.size() - 1), outline));
  EXPECT_FALSE(Read(std::string(20, '\xff'), outline));
  EXPECT_FALSE(Read(bytes + '\0', outline));
  EXPECT_FALSE(Read(Bytes({1 << 3}), outline));
}

}  // namespace
}  // namespace attention
