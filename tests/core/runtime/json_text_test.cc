#include "core/runtime/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/support/matchers.h"
#include "tests/support/slowdown.h"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(JsonTextTest, SaysWhatTheTextSays) {
  const auto parsed = ParseJson(R"( {"a": [1, "\u0000"], "b": null} )", "file.json");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ((*parsed)["a"][1], std::string(1, '\0'));
  EXPECT_THAT(ParseJson("7", "file.json"), IsOk());
  EXPECT_THAT(ParseJsonObject("7", "file.json"),
              StatusIs(kInvalid, "file.json: expected a JSON object, found number"));
}

// The parser takes a byte 0 outside strings for the end of the text.
TEST(JsonTextTest, AByteZeroAnywhereIsRefused) {
  const std::string text = R"({"a": {"b": 1}} )";
  for (size_t i = 0; i <= text.size(); ++i) {
    std::string zero = text;
    zero.insert(i, 1, '\0');
    for (const std::string& bad : {zero, zero + "\"", zero + R"({"c":"\")"}) {
      EXPECT_THAT(ParseJson(bad, "file.json"),
                  StatusIs(kInvalid, "file.json: expected JSON text, found the byte 0 at offset " +
                                         std::to_string(i)));
    }
  }
}

TEST(JsonTextTest, OtherTextIsRefused) {
  for (const char* text :
       {"", " ", "{", "]", "{} {}", "{\"a\": 1,}", "{\"\xff\": 1}", "// x\n{}"}) {
    EXPECT_THAT(ParseJson(text, "file.json"),
                StatusIs(kInvalid, HasSubstr("file.json: expected JSON")))
        << text;
  }
}

TEST(JsonTextTest, NestingIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_THAT(ParseJson(nested(kMaxJsonDepth), "file.json"), IsOk());
  EXPECT_THAT(ParseJson(nested(kMaxJsonDepth + 1), "file.json"),
              StatusIs(kInvalid, "file.json: expected at most 32 levels of nesting, found more"));
}

TEST(JsonTextTest, FindsANameThatAnObjectHasTwice) {
  EXPECT_EQ(RepeatedJsonName(R"({"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]})"), std::nullopt);
  EXPECT_EQ(RepeatedJsonName(R"({"a": 1, "b": 2, "a": 3} // a comment)"), "a");
  EXPECT_EQ(RepeatedJsonName(R"([{"a": [{"c": 1, "c": 2}]}])"), "c");
  EXPECT_EQ(RepeatedJsonName(R"({"": 1, "a": 2, "": 3})"), "");
}

TEST(JsonTextTest, NamesCountForTheirOwnObjectOnly) {
  EXPECT_EQ(RepeatedJsonName(R"({"a": {"a": {"a": 1}}, "b": {"a": 1, "b": [{"b": 1}]}})"),
            std::nullopt);
  EXPECT_EQ(RepeatedJsonName(R"({"a": {"b": 1}, "c": 2, "a": {"b": 1, "b": 2}})"), "a");
  EXPECT_EQ(RepeatedJsonName(R"({"a": 1, "a": 2)"), std::nullopt) << "it is no JSON";
}

// A parser that looks at each member once for each that follows takes 10^11 steps: an hour.
TEST(JsonTextTest, AsManyMembersAsAHeaderMayHaveAreRead) {
  constexpr int kMembers = 500'000 / kSlowdown;
  std::string object = "{";
  std::string list = "[";
  for (int i = 0; i < kMembers; ++i) {
    object += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":{}";
    list += i > 0 ? ",{}" : "{}";
  }
  object += "}";
  list += "]";
  for (const std::string& text : {object, list}) {
    const auto parsed = ParseJson(text, "file.json");
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->size(), kMembers);
    EXPECT_EQ(RepeatedJsonName(text), std::nullopt);
  }
}

TEST(JsonTextTest, OnlyBracketsThatNestCount) {
  const std::string open(100, '{');
  for (const std::string& text : {"{\"a\": 1} // " + open, "/* " + open + " */ {}",
                                  "{\"" + open + "\": \"\\\"" + open + "\"}"}) {
    EXPECT_THAT(CheckJsonText(text, "file.json"), IsOk()) << text;
  }
  EXPECT_THAT(CheckJsonText("// x\n" + std::string(3'000'000, '['), "file.json"),
              StatusIs(kInvalid, "file.json: expected at most 32 levels of nesting, found more"));
}

}  // namespace
}  // namespace attention
