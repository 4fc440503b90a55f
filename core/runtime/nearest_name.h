// The name that is most similar to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attention {

/// Returns the number of letters to insert, delete, replace or swap with a neighbour that turn `a`
/// into `b`.
size_t TypingErrors(const std::string& a, const std::string& b);

/// Returns the name with the fewest typing errors, if these are at most a third of the letters of
/// `word`, or one. A name that begins with a `word` of at least three letters counts as one error.
/// Of names that count the same it returns the shortest that so begins, else the first. A word of
/// one letter is near only to the same letter, with more or fewer dashes.
std::optional<std::string> NearestName(const std::string& word,
                                       const std::vector<std::string>& names);

/// Returns "; the nearest is X", or an empty text when no name is near.
std::string NearestHint(const std::string& word, const std::vector<std::string>& names);

}  // namespace attention
