// Parser checks made of parse functions.
#pragma once

#include <string>

namespace attention {

/// The text is what `parse` accepts.
template <typename Parse>
auto Accepts(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    return parsed.ok() ? std::string() : std::string(parsed.status().message());
  };
}

}  // namespace attention
