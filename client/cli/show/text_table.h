// Tables of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attention {

/// Returns one line for each row: the first column aligned left, the others right. Cells are shown
/// as ShownLine makes them. REQUIRES: all rows have as many cells.
std::string TextTable(std::vector<std::vector<std::string>> rows);

/// Returns a number of bytes as text: "12.3 MiB".
std::string Mebibytes(int64_t bytes);

}  // namespace attention
