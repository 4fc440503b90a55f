#include "client/page/page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/page/escape.h"

namespace attention {

extern const Asset kBaseStyle;

namespace {

constexpr size_t kSha256Bytes = 32;

/// Allows inline styles, because pictures contain some. Without network access they cannot leak
/// data.
std::string SecurityPolicy(const std::vector<const Asset*>& scripts) {
  std::string sources;
  for (const Asset* script : scripts) {
    absl::StrAppend(&sources, " 'sha256-",
                    absl::Base64Escape(std::string(script->sha256, kSha256Bytes)), "'");
  }
  return absl::StrCat("default-src 'none'; script-src", sources.empty() ? " 'none'" : sources,
                      "; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
                      "form-action 'none'");
}

std::string Head(const Page& page) {
  std::string head = absl::StrCat(
      "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"",
      SecurityPolicy(page.scripts), "\">\n<title>", EscapeHtml(page.title), "</title>\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
      "<meta name=\"generator\" content=\"attend\">\n",
      // Browsers ask a server for an icon when a page names none.
      "<link rel=\"icon\" href=\"data:,\">\n<style>\n", kBaseStyle.text);
  for (const Asset* style : page.styles) {
    absl::StrAppend(&head, style->text);
  }
  return absl::StrCat(head, "</style>\n");
}

}  // namespace

std::string PageHtml(const Page& page) {
  std::string html = absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n", Head(page),
                                  "</head>\n<body>\n<main>\n", page.body, "</main>\n");
  if (!page.data.is_null()) {
    absl::StrAppend(&html, "<script type=\"application/json\" id=\"data\">", ScriptJson(page.data),
                    "</script>\n");
  }
  for (const Asset* script : page.scripts) {
    absl::StrAppend(&html, "<script>", script->text, "</script>\n");
  }
  return absl::StrCat(html, "</body>\n</html>\n");
}

}  // namespace attention
