// JSON with one value replaced by a wrong one.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace attention {

struct Mutation {
  /// The whole text, changed.
  std::string text;
  /// The name of the member that was changed, or whose list or object holds what was.
  std::string key;
  /// What stands there now; "nothing" and "twice" in words.
  std::string value;
};

/// For every value in `original`, at any depth: that value as 0, -1, huge, a fraction, null, of
/// each wrong type and so on; left out; and written twice, of which the second is the original.
/// Members whose name is in `unchanged` stay.
std::vector<Mutation> MutationsOf(const nlohmann::json& original,
                                  const std::vector<std::string>& unchanged = {});

}  // namespace attention
