// Sequences of token ids.
#pragma once

#include <cstdint>
#include <vector>

namespace attention {

using Ids = std::vector<int32_t>;

/// Returns `ids`, followed by `more`.
inline Ids Join(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

}  // namespace attention
