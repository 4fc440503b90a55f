// The form of a line.
#include "server/log/log.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;

const absl::Time kTime = absl::FromUnixMillis(1'767'225'600'123);

std::string Text(const LogEvent& event) { return FormatLogLine(LogFormat::kText, kTime, event); }
nlohmann::json Json(const LogEvent& event) {
  const std::string line = FormatLogLine(LogFormat::kJson, kTime, event);
  EXPECT_THAT(line.find('\n'), Eq(line.size() - 1));
  return nlohmann::json::parse(line);
}

TEST(LogTest, WritesTimeLevelTextAndFields) {
  EXPECT_EQ(Text({.level = LogLevel::kWarning,
                  .text = "request refused",
                  .fields = {{"id", "a-1"}, {"bytes", int64_t{7}}, {"queue_ms", 1.5}}}),
            "2026-01-01T00:00:00.123Z WARNING request refused id=a-1 bytes=7 queue_ms=1.500\n");
}

TEST(LogTest, QuotesWhatWouldLookLikeMoreThanOneField) {
  EXPECT_EQ(
      Text({.text = "request",
            .fields = {{"why", "no room"}, {"id", "a=b"}, {"tenant", ""}, {"q", "say \"x\\\""}}}),
      "2026-01-01T00:00:00.123Z INFO request why=\"no room\" id=\"a=b\" tenant=\"\" "
      "q=\"say \\\"x\\\\\\\"\"\n");
}

TEST(LogTest, QuotesWhatIsNotAscii) {
  EXPECT_EQ(Text({.text = "request", .fields = {{"tenant", "Zürich"}}}),
            "2026-01-01T00:00:00.123Z INFO request tenant=\"Zürich\"\n");
}

TEST(LogTest, ControlCharactersAreSpaces) {
  EXPECT_EQ(Text({.text = "a\nb\x1b"
                          "c",
                  .fields = {{"tenant", "x\xC2\x9By\xC2\x85z\xC2\xA0\xC2"}}}),
            "2026-01-01T00:00:00.123Z INFO a b c tenant=\"x y z\xC2\xA0\xC2\"\n");
}

TEST(LogTest, KeepsWhatClientsWriteInItsLine) {
  const LogEvent event = {.text = "one\ntwo", .fields = {{"model", "x\r\nforged"}}};
  EXPECT_EQ(Text(event), "2026-01-01T00:00:00.123Z INFO one two model=\"x  forged\"\n");
  EXPECT_EQ(Json(event)["model"], "x\r\nforged");
}

// They would show what follows in another order, or on another line.
TEST(LogTest, NoTextTurnsTheDirectionOfItsLine) {
  const LogEvent event = {.text = "a\u202Eb\u2028c", .fields = {{"tenant", "x\u2066y\u009Bz"}}};
  EXPECT_EQ(Text(event), "2026-01-01T00:00:00.123Z INFO a b c tenant=\"x y z\"\n");
  const std::string line = FormatLogLine(LogFormat::kJson, kTime, event);
  EXPECT_THAT(line, HasSubstr("a\\u202eb\\u2028c"));
  EXPECT_THAT(line, HasSubstr("x\\u2066y\\u009bz"));
  EXPECT_EQ(Json(event)["message"], event.text);
}

TEST(LogTest, WritesAnObjectOfJson) {
  EXPECT_EQ(Json({.level = LogLevel::kError,
                  .text = "request",
                  .fields = {{"id", "a"}, {"tokens", int64_t{12}}, {"send_ms", 0.25}}}),
            (nlohmann::json{{"time", "2026-01-01T00:00:00.123Z"},
                            {"level", "error"},
                            {"message", "request"},
                            {"id", "a"},
                            {"tokens", 12},
                            {"send_ms", 0.25}}));
}

TEST(LogTest, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(Json({.text = "a\xff z"})["message"], "a\xef\xbf\xbd z");
}

}  // namespace
}  // namespace attention
