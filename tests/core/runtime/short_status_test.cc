#include "core/runtime/short_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

absl::Status Quoting(const std::string& found) {
  return absl::NotFoundError("model: expected one of a, b, found \"" + found + "\"; try again");
}

TEST(ShortStatusTest, WhatIsShortStaysAsItIs) {
  const absl::Status status = Quoting(std::string(kMaxStatusText - 60, 'x'));
  EXPECT_EQ(Shortened(status), status);
  EXPECT_EQ(Shortened(absl::OkStatus()), absl::OkStatus());
}

TEST(ShortStatusTest, BothEndsAreKept) {
  const absl::Status status = Shortened(Quoting(std::string(1 << 20, 'x')));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const std::string text(status.message());
  EXPECT_EQ(text.size(), kMaxStatusText);
  EXPECT_THAT(text, StartsWith("model: expected one of a, b, found \"xxx"));
  EXPECT_THAT(text, EndsWith("xxx\"; try again"));
  EXPECT_NE(text.find("x [...] x"), std::string::npos);
}

TEST(ShortStatusTest, NoCharacterIsCut) {
  for (const char* character : {"\u00e4", "\u20ac", "\U0001f600"}) {
    for (size_t shift = 0; shift < 4; ++shift) {
      std::string text(shift, 'x');
      while (text.size() < 3 * kMaxStatusText) {
        text += character;
      }
      std::string left(Shortened(absl::InternalError(text)).message());
      const size_t gap = left.find(" [...] ");
      ASSERT_NE(gap, std::string::npos);
      const std::string width(character);
      EXPECT_EQ((gap - shift) % width.size(), 0u);
      EXPECT_EQ((left.size() - gap - 7) % width.size(), 0u);
      EXPECT_LE(left.size(), kMaxStatusText);
    }
  }
}

TEST(ShortStatusTest, PayloadsStay) {
  absl::Status status = Quoting(std::string(1 << 20, 'x'));
  status.SetPayload("type/refusal", absl::Cord("queue"));
  EXPECT_EQ(Shortened(status).GetPayload("type/refusal"), absl::Cord("queue"));
}

}  // namespace
}  // namespace attention
