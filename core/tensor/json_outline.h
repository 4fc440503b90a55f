// What can be told of JSON text before it is parsed.
#pragma once

#include <string_view>
#include <vector>

namespace attention {

/// Deeper text is refused: to copy or print its values would take a stack as deep.
inline constexpr int kMaxJsonDepth = 16;

struct JsonOutline {
  /// Of the objects and lists within each other.
  int depth = 0;
  /// Of the outermost object's members, all of them, as written: in quotes. Borrowed.
  std::vector<std::string_view> names = {};
};

/// Of any text; means what it says only where the text is JSON.
JsonOutline OutlineOf(std::string_view json);

}  // namespace attention
