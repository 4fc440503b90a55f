// What somebody who mistyped a name may have meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attention {

/// Letters too many, too few, other ones, or two swapped, that make `b` of `a`.
size_t TypingErrors(const std::string& a, const std::string& b);

/// The name that `word` begins, or that is the fewest typing errors away, if they are at most a
/// third of its letters; the first of several.
std::optional<std::string> NearestName(const std::string& word,
                                       const std::vector<std::string>& names);

/// "; the nearest is X", or nothing.
std::string NearestHint(const std::string& word, const std::vector<std::string>& names);

}  // namespace attention
