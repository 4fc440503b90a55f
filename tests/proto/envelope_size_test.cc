// Which messages are large beside their tensors.
#include "proto/codec/envelope_size.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/attention/v1/attention.pb.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/fill.h"

namespace attention {
namespace {

constexpr int64_t kBytes = 1000;

bool IsLarge(const std::string& bytes) {
  return HasLargeEnvelope(Cut(bytes, 100), EnvelopeFieldsOf<v1::AttendRequest>(), kBytes);
}

TEST(EnvelopeSizeTest, TensorsDoNotCount) {
  v1::AttendRequest request;
  request.mutable_hidden_states()->mutable_tensor()->set_data(std::string(100 * kBytes, 'x'));
  request.mutable_options()->mutable_bias()->set_data(std::string(100 * kBytes, 'x'));
  EXPECT_FALSE(IsLarge(request.SerializeAsString()));
  Fill(request.mutable_hidden_states()->mutable_lengths(), kBytes, int64_t{1});
  EXPECT_TRUE(IsLarge(request.SerializeAsString()));
}

TEST(EnvelopeSizeTest, TextsCountManyTimes) {
  v1::AttendRequest request;
  request.mutable_text()->add_texts(std::string(kBytes / kTextWeight - 2, 'x'));
  EXPECT_FALSE(IsLarge(request.SerializeAsString()));
  request.mutable_text()->add_texts("more");
  EXPECT_TRUE(IsLarge(request.SerializeAsString()));
  v1::AttendRequest ids;
  ids.set_model(std::string(kBytes / 4, 'm'));
  Fill(ids.mutable_token_ids()->mutable_ids(), kBytes / 2, 1);
  EXPECT_FALSE(IsLarge(ids.SerializeAsString())) << "neither names nor ids are texts";
}

TEST(EnvelopeSizeTest, EverythingElseDoes) {
  v1::AttendRequest ids;
  Fill(ids.mutable_token_ids()->mutable_ids(), kBytes, 1);
  EXPECT_TRUE(IsLarge(ids.SerializeAsString()));
  v1::AttendRequest texts;
  for (int i = 0; i < kBytes; ++i) {
    texts.mutable_text()->add_texts();
  }
  EXPECT_TRUE(IsLarge(texts.SerializeAsString()));
  v1::AttendRequest lists;
  Fill(lists.mutable_hidden_states()->mutable_tensor()->mutable_shape(), kBytes, int64_t{1});
  EXPECT_TRUE(IsLarge(lists.SerializeAsString()));
}

TEST(EnvelopeSizeTest, SmallMessagesAreSmallWhateverTheyHold) {
  EXPECT_FALSE(IsLarge(""));
  EXPECT_FALSE(IsLarge(std::string(kBytes, '\xff')));
}

TEST(EnvelopeSizeTest, ItEndsWhereBytesAreNoMessage) {
  const std::string prefix = Delimited(1, "model");
  EXPECT_FALSE(IsLarge(prefix + std::string(10 * kBytes, '\xff')));
  v1::AttendRequest unknown;
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddLengthDelimited(
      99, std::string(2 * kBytes, 'x'));
  EXPECT_TRUE(IsLarge(prefix + unknown.SerializeAsString()));
}

}  // namespace
}  // namespace attention
