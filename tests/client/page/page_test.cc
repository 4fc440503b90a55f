#include "client/page/page.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageTest, AllowsNoNetworkAndNoScriptWhenItHasNone) {
  const std::string html = PageHtml({.title = "a <b>", .body = "<p>c</p>"});
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; script-src 'none'; "));
  EXPECT_THAT(html, HasSubstr("<title>a &lt;b&gt;</title>"));
  EXPECT_THAT(html, HasSubstr("<main>\n<p>c</p></main>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("http:")));
  EXPECT_THAT(html, Not(HasSubstr("https:")));
}

TEST(PageTest, AllowsItsScriptsByTheirHash) {
  // printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64
  constexpr char kHash[] = "bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=";
  const Asset script = {.text = "alert(1)",
                        .sha256 =
                            "\x6e\x11\xc7\x2f\x7c\xf6\xbc\x38\x31\x52\xdd\x16\xdd\xd5\x90\x3a"
                            "\xba\x6b\xb1\xc9\x9d\x6b\x66\x39\xa4\xbb\x0b\x83\x81\x85\xfa\x92"};
  const Asset style = {.text = "b { color: red }", .sha256 = ""};
  const std::string html = PageHtml(
      {.title = "t", .body = "", .styles = {&style}, .scripts = {&script}, .data = {{"a", "<"}}});
  EXPECT_THAT(html, HasSubstr(std::string("script-src 'sha256-") + kHash + "';"));
  EXPECT_THAT(html, HasSubstr("b { color: red }</style>"));
  EXPECT_THAT(html, HasSubstr("<script type=\"application/json\" id=\"data\">{\"a\":\"\\u003c\"}"
                              "</script>\n<script>alert(1)</script>"));
}

}  // namespace
}  // namespace attention
