// Hostile bytes: an error or a message, never a crash, and never another message than protobuf's
// own but for unknown fields, which are left out.
#include <random>

#include "gmock/gmock.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"
#include "tests/support/quiet_protobuf.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

auto IsRefused() {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attention.v1.AttendRequest"));
}

class MalformedTest : public ::testing::Test {
 private:
  QuietProtobuf quiet_;
};

absl::StatusOr<Received<v1::AttendRequest>> DecodeRequest(const std::string& wire) {
  return Decode<v1::AttendRequest>(Cut(wire, 5));
}

TEST_F(MalformedTest, AgreesWithProtobufOnEveryTruncation) {
  const std::string whole = RichRequest().SerializeAsString();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string wire = whole.substr(0, size);
    v1::AttendRequest expected;
    const bool is_message = expected.ParseFromString(wire);
    expected.DiscardUnknownFields();
    const auto received = DecodeRequest(wire);
    ASSERT_EQ(received.ok(), is_message) << size << " bytes";
    if (is_message) {
      EXPECT_EQ(Filled(*received).SerializeAsString(), expected.SerializeAsString())
          << size << " bytes";
    } else {
      EXPECT_THAT(received, IsRefused());
    }
  }
}

TEST_F(MalformedTest, NeverReadsAnotherMessageThanProtobuf) {
  v1::AttendRequest request = RichRequest();
  request.mutable_hidden_states()->mutable_tensor()->set_data("0123456789");
  request.mutable_hidden_states()->mutable_memory()->set_data("abcdef");
  const std::string whole = request.SerializeAsString();
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string wire = whole;
    for (uint32_t change = 0; change < 1 + random() % 3; ++change) {
      wire[random() % wire.size()] =
          static_cast<char>(random() % 4 == 0 ? random() : random() % 40);
    }
    const auto received = DecodeRequest(wire);
    if (received.ok()) {
      v1::AttendRequest expected;
      ASSERT_TRUE(expected.ParseFromString(wire)) << "round " << round;
      expected.DiscardUnknownFields();
      ASSERT_EQ(Filled(*received).SerializeAsString(), expected.SerializeAsString())
          << "round " << round;
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 2000);
}

TEST_F(MalformedTest, RefusesALengthThatLiesAboutTheBytesThatFollow) {
  EXPECT_THAT(DecodeRequest(Bytes({0x12, 100, 0x0a, 0})), IsRefused());
  EXPECT_THAT(DecodeRequest(Bytes({0x12, 4, 0x0a, 2, 0x1a, 1, 'x'})), IsRefused())
      << "past its parent's end";
  EXPECT_THAT(DecodeRequest(Bytes({0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x'})), IsRefused())
      << "4 GiB of name";
  EXPECT_THAT(DecodeRequest(Bytes({0x12, 0xff, 0xff, 0xff, 0xff, 0x07, 'x'})), IsRefused())
      << "2 GiB of message";
  EXPECT_THAT(DecodeRequest(Bytes({0x12, 8, 0x0a, 6, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x07})),
              IsRefused())
      << "2 GiB of tensor";
}

TEST_F(MalformedTest, RefusesGroupsAndTagsThatAreNone) {
  EXPECT_THAT(DecodeRequest(Bytes({0x0b, 0x0c})), IsRefused());
  EXPECT_THAT(DecodeRequest(Bytes({0x0c})), IsRefused());
  EXPECT_THAT(DecodeRequest(Bytes({0x0e, 0})), IsRefused());
  EXPECT_THAT(DecodeRequest(Bytes({0x00, 0})), IsRefused());
  EXPECT_THAT(DecodeRequest(Bytes({0x02, 0})), IsRefused());
  EXPECT_THAT(DecodeRequest(std::string(11, '\xff')), IsRefused());
}

TEST_F(MalformedTest, RefusesANameThatIsNotUtf8) {
  EXPECT_THAT(DecodeRequest(Bytes({0x0a, 3, 0x61, 0xc3, 0x28})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "attention.v1.AttendRequest.model: expected UTF-8, found an invalid "
                       "sequence at byte 1"));
  EXPECT_THAT(DecodeRequest(Bytes({0x0a, 2, 0xc3, 0xa9})), Not(IsRefused()));
}

TEST_F(MalformedTest, KnowsTheSameUtf8AsProtobuf) {
  std::mt19937 random(7);
  constexpr uint8_t kSomeBytes[] = {0x00, 0x28, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
                                    0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0,
                                    0xed, 0xee, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string name(1 + random() % 6, '\0');
    for (char& byte : name) {
      byte = static_cast<char>(kSomeBytes[random() % std::size(kSomeBytes)]);
    }
    const std::string wire = Bytes({0x0a, static_cast<uint8_t>(name.size())}) + name;
    const bool is_message = v1::AttendRequest().ParseFromString(wire);
    ASSERT_EQ(DecodeRequest(wire).ok(), is_message) << "round " << round;
    accepted += is_message ? 1 : 0;
  }
  EXPECT_GT(accepted, 200);
}

TEST_F(MalformedTest, SurvivesRandomBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string wire(1 + random() % 64, '\0');
    for (char& byte : wire) {
      byte = static_cast<char>(random());
    }
    const auto received = DecodeRequest(wire);
    if (received.ok()) {
      v1::AttendRequest expected;
      ASSERT_TRUE(expected.ParseFromString(wire)) << ::testing::PrintToString(wire);
      expected.DiscardUnknownFields();
      ASSERT_EQ(Filled(*received).SerializeAsString(), expected.SerializeAsString())
          << ::testing::PrintToString(wire);
    }
  }
}

}  // namespace
}  // namespace attention
