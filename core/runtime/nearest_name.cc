#include "core/runtime/nearest_name.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

/// The name of a flag without its dashes.
std::string Letters(const std::string& name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

// Optimal string alignment distance (a restricted Damerau-Levenshtein distance: L. Boytsov,
// "Indexing methods for approximate dictionary searching", 2011, section 2.2).
size_t TypingErrors(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> errors(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        errors[i][j] = i + j;
        continue;
      }
      errors[i][j] = std::min({errors[i - 1][j] + 1, errors[i][j - 1] + 1,
                               errors[i - 1][j - 1] + static_cast<size_t>(a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        errors[i][j] = std::min(errors[i][j], errors[i - 2][j - 2] + 1);
      }
    }
  }
  return errors[a.size()][b.size()];
}

std::optional<std::string> NearestName(const std::string& word,
                                       const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  const std::string letters = Letters(word);
  // Of two names that begin with the word, the shorter one is nearer.
  std::pair<size_t, size_t> fewest = {std::max<size_t>(1, letters.size() / 3) + 1, 0};
  for (const std::string& name : names) {
    if (letters.size() == 1 && Letters(name) != letters) {
      continue;  // any other letter is one typing error away
    }
    const bool is_begun = letters.size() >= 3 && absl::StartsWith(name, word);
    const size_t errors = TypingErrors(word, name);
    const std::pair<size_t, size_t> distance = {is_begun ? 1 : errors, errors};
    if (distance < fewest) {
      fewest = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string NearestHint(const std::string& word, const std::vector<std::string>& names) {
  const std::optional<std::string> nearest = NearestName(word, names);
  return nearest.has_value() ? absl::StrCat("; the nearest is ", *nearest) : "";
}

}  // namespace attention
