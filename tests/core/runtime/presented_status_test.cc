#include "core/runtime/presented_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status Quoting(const std::string& found) {
  return absl::NotFoundError("model: expected one of a, b, found \"" + found + "\"; try again");
}

TEST(PresentedStatusTest, WhatIsShortStaysAsItIs) {
  const absl::Status status = Quoting(std::string(kMaxStatusText - 60, 'x'));
  EXPECT_EQ(Presented(status), status);
  EXPECT_EQ(Presented(absl::OkStatus()), absl::OkStatus());
}

TEST(PresentedStatusTest, BothEndsAreKept) {
  const absl::Status status = Presented(Quoting(std::string(1 << 20, 'x')));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const std::string text(status.message());
  EXPECT_LE(text.size(), kMaxStatusText);
  EXPECT_GT(text.size(), kMaxStatusText - 64);
  EXPECT_THAT(text, StartsWith("model: expected one of a, b, found \"xxx"));
  EXPECT_THAT(text, EndsWith("xxx\"; try again"));
  EXPECT_THAT(text, HasSubstr("x [1046624 bytes left out] x"));
}

TEST(PresentedStatusTest, ControlCharactersAreEscapedAndOthersStay) {
  const std::string name("red\x1b[31m\n\t\x7f\0", 12);
  EXPECT_EQ(Presented(Quoting(name)), Quoting("red\\x1b[31m\\x0a\\x09\\x7f\\x00"));
  EXPECT_EQ(Presented(Quoting("\u0085\u009b\u00a0\u00e4\u20ac")),
            Quoting("\\x85\\x9b\u00a0\u00e4\u20ac"));
  EXPECT_EQ(Presented(Quoting("\u061c\u200e\u2027\u2028\u202e\u202f\u2065\u2069\u206a")),
            Quoting("\\u061c\\u200e\u2027\\u2028\\u202e\u202f\u2065\\u2069\u206a"));
  // What ends within a character stays.
  EXPECT_EQ(Presented(Quoting("\xe2\x80")), Quoting("\xe2\x80"));
}

TEST(PresentedStatusTest, EscapesCountTowardsTheLength) {
  const std::string text(Presented(Quoting(std::string(1 << 20, '\n'))).message());
  EXPECT_LE(text.size(), kMaxStatusText);
  EXPECT_THAT(text, EndsWith("\\x0a\"; try again"));
}

TEST(PresentedStatusTest, NoCharacterIsCut) {
  for (const char* character : {"\u00e4", "\u20ac", "\U0001f600"}) {
    for (size_t shift = 0; shift < 4; ++shift) {
      std::string text(shift, 'x');
      while (text.size() < 3 * kMaxStatusText) {
        text += character;
      }
      std::string left(Presented(absl::InternalError(text)).message());
      const size_t gap = left.find(" [");
      const size_t end = left.find("] ");
      ASSERT_NE(gap, std::string::npos);
      const std::string width(character);
      EXPECT_EQ((gap - shift) % width.size(), 0u);
      EXPECT_EQ((left.size() - end - 2) % width.size(), 0u);
      EXPECT_LE(left.size(), kMaxStatusText);
    }
  }
}

TEST(PresentedStatusTest, PayloadsStay) {
  absl::Status status = Quoting(std::string(1 << 20, 'x'));
  status.SetPayload("type/refusal", absl::Cord("queue"));
  EXPECT_EQ(Presented(status).GetPayload("type/refusal"), absl::Cord("queue"));
}

}  // namespace
}  // namespace attention
