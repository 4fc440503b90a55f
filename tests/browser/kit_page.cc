// Writes a page to stdout that has hostile text in every place that takes text.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/page/escape.h"
#include "client/page/page.h"

namespace attention {

extern const Asset kKitScript;

namespace {

constexpr char kHostile[] =
    "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"alert(3)'"
    " \u202egnp.exe \u05e9\u05dc\u05d5\u05dd \xff";

/// A picture within the page: each colour of a chart, and text.
std::string Picture() {
  std::string svg = absl::StrCat("<svg viewBox=\"0 0 512 40\" role=\"img\" aria-label=\"",
                                 EscapeHtml(kHostile), "\">\n");
  for (int i = 1; i <= 8; ++i) {
    absl::StrAppend(&svg, "<rect x=\"", 64 * (i - 1),
                    "\" y=\"24\" width=\"60\" height=\"16\" style=\"fill:var(--series-", i,
                    ")\"/>\n");
  }
  return absl::StrCat(svg, "<text x=\"0\" y=\"20\">", EscapeHtml(kHostile), "</text>\n</svg>\n");
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
                            "</pre><bdi id=\"shown\"></bdi>", attention::Picture(), "</div>\n",
                            // Not escaped on purpose: the policy stops what slips in.
                            "<p onclick=\"alert(4)\" id=\"slipped\">slipped in</p>"),
       .styles = {},
       .scripts = {&attention::kKitScript},
       .data = {{"name", attention::Printable(kHostile)}}});
}
