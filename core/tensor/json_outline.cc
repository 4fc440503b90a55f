#include "core/tensor/json_outline.h"

#include <algorithm>

namespace attention {
namespace {

/// Of the string that begins at `first`, the place behind its closing quote.
size_t EndOfString(std::string_view json, size_t first) {
  size_t i = first + 1;
  while (i < json.size() && json[i] != '"') {
    i += json[i] == '\\' ? 2 : 1;
  }
  return std::min(i + 1, json.size());
}

}  // namespace

JsonOutline OutlineOf(std::string_view json) {
  JsonOutline outline;
  std::string_view last_string;
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      const size_t end = EndOfString(json, i);
      last_string = json.substr(i, end - i);
      i = end - 1;
    } else if (c == '{' || c == '[') {
      outline.depth = std::max(outline.depth, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      outline.names.push_back(last_string);
    }
  }
  return outline;
}

}  // namespace attention
