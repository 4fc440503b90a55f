#include "client/page/escape.h"

#include <string>

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(EscapeTest, TextIsTextInElementsAndAttributes) {
  EXPECT_EQ(EscapeHtml("<img src='x' onerror=\"y\">&amp;"),
            "&lt;img src=&#39;x&#39; onerror=&quot;y&quot;&gt;&amp;amp;");
  EXPECT_EQ(EscapeHtml("na\u00efve \u05e9\u05dc\u05d5\u05dd \U0001f600\t\n"),
            "na\u00efve \u05e9\u05dc\u05d5\u05dd \U0001f600\t\n");
}

TEST(EscapeTest, WhatIsNoTextBecomesTheReplacementCharacter) {
  const std::string replacement = "\ufffd";
  for (const char* bad : {"\x01", "\x7f", "\xc2\x85", "\xff", "\xc3", "\xef\xbf\xbf"}) {
    EXPECT_EQ(Printable(std::string("a") + bad + "b"), "a" + replacement + "b") << bad;
  }
  EXPECT_EQ(Printable(std::string(1, '\0')), replacement);
  EXPECT_EQ(Printable("\xc0\xaf"), replacement + replacement) << "overlong";
  EXPECT_EQ(Printable("\xed\xa0\x80"), replacement + replacement + replacement) << "surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80").substr(0, 3), replacement) << "beyond Unicode";
}

TEST(EscapeTest, NothingReordersItsSurroundings) {
  EXPECT_EQ(Printable("a\u202eb\u2066c\u2069"), "a\ufffdb\ufffdc\ufffd");
}

TEST(EscapeTest, JsonCannotEndItsScript) {
  const std::string hostile = "</script><!--&\u2028\xff";
  const std::string json = ScriptJson({{"name", hostile}});
  EXPECT_EQ(json, "{\"name\":\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028\\ufffd\"}");
  EXPECT_EQ(nlohmann::json::parse(json)["name"], "</script><!--&\u2028\ufffd");
}

}  // namespace
}  // namespace attention
