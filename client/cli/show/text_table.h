// Tables of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attention {

/// Returns one line for each row of UTF-8: the first column aligned left, the others right.
/// REQUIRES: all rows have as many cells.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

/// Returns a number of bytes as text: "12.3 MiB".
std::string Mebibytes(int64_t bytes);

}  // namespace attention
