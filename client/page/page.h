// A self-contained HTML file: it needs no network and no other files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/page/asset.h"

namespace attention {

struct Page {
  /// Plain text.
  std::string title;
  /// HTML between <main> and </main>; foreign text in it is escaped (EscapeHtml).
  std::string body;
  /// Style sheets in addition to base.css.
  std::vector<const Asset*> styles;
  /// Scripts, which run in this order after the body. The policy of the page blocks all others.
  std::vector<const Asset*> scripts;
  /// Data for the scripts: JSON.parse(document.getElementById("data").textContent). Left out if
  /// null.
  nlohmann::json data;
};

/// Returns the HTML of `page`, light or dark as the reader prefers, readable on a phone and on
/// paper. Its Content-Security-Policy allows no requests, and only the scripts of `page`, by their
/// hash.
std::string PageHtml(const Page& page);

}  // namespace attention
