// One HTML file that needs nothing else: no network, no other files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/page/asset.h"

namespace attention {

struct Page {
  /// Text.
  std::string title;
  /// HTML between <main> and </main>; foreign text in it is escaped (EscapeHtml).
  std::string body;
  /// They come after the style that all pages have (base.css).
  std::vector<const Asset*> styles;
  /// Run in this order when the body is there. No other script runs, should one slip in.
  std::vector<const Asset*> scripts;
  /// For the scripts: JSON.parse(document.getElementById("data").textContent). Left out when null.
  nlohmann::json data;
};

/// Light and dark as the reader prefers, readable on a phone and on paper. Its
/// Content-Security-Policy allows no request at all and no scripts but those named, by their hash.
std::string PageHtml(const Page& page);

}  // namespace attention
