// Writes a page to stdout that has hostile text in every place that takes text.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/page/color.h"
#include "client/page/escape.h"
#include "client/page/page.h"
#include "client/page/svg.h"

namespace attention {

extern const Asset kKitScript;

namespace {

constexpr char kHostile[] =
    "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"alert(3)'"
    " \u202egnp.exe \u05e9\u05dc\u05d5\u05dd \xff";

std::string Gradient() {
  Svg svg(512, 40, absl::StrCat("scale ", kHostile));
  svg.Open("g", {{"class", kHostile}}).Title(kHostile);
  for (int i = 0; i < 64; ++i) {
    svg.Add("rect",
            {{"x", 8 * i}, {"width", 8}, {"height", 20}, {"fill", Hex(SequentialColor(i / 63.0))}});
  }
  for (int i = 1; i <= 8; ++i) {
    svg.Add("rect", {{"x", 64 * (i - 1)},
                     {"y", 24},
                     {"width", 60},
                     {"height", 16},
                     {"style", absl::StrCat("fill:var(--series-", i, ")")}});
  }
  return svg.Close().Text(kHostile, {{"x", 0}, {"y", 20}, {"class", "label"}}).Inline();
}

}  // namespace
}  // namespace attention

int main() {
  using attention::EscapeHtml;
  using attention::kHostile;
  std::cout << attention::PageHtml(
      {.title = kHostile,
       .body = absl::StrCat("<h1><bdi>", EscapeHtml(kHostile), "</bdi></h1>\n<div class=\"card\">",
                            "<p id=\"quoted\" title=\"", EscapeHtml(kHostile), "\">text</p>",
                            "<p class=\"muted\">quiet</p><pre>", EscapeHtml(kHostile),
                            "</pre><bdi id=\"shown\"></bdi>", attention::Gradient(), "</div>\n",
                            // Not escaped on purpose: the policy stops what slips in.
                            "<p onclick=\"alert(4)\" id=\"slipped\">slipped in</p>"),
       .styles = {},
       .scripts = {&attention::kKitScript},
       .data = {{"name", attention::Printable(kHostile)}}});
}
