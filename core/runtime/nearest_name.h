// What somebody who mistyped a name may have meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attention {

/// The name that `word` begins, or that is the fewest typing errors away (a letter too many, too
/// few, another, or two swapped), if they are at most a third of its letters; the first of several.
std::optional<std::string> NearestName(const std::string& word,
                                       const std::vector<std::string>& names);

/// "; the nearest is X", or nothing.
std::string NearestHint(const std::string& word, const std::vector<std::string>& names);

}  // namespace attention
