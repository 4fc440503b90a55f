// What somebody who mistyped a name may have meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attention {

/// The candidate that the fewest changes of single letters lead to (Levenshtein, 1966; the first of
/// several), unless they are more than a third of the name's letters.
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates);

/// "; the nearest is X", or nothing.
std::string NearestHint(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace attention
