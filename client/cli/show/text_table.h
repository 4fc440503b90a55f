// Columns of text.
#pragma once

#include <string>
#include <vector>

namespace attention {

/// One line per row: the first column aligned left, the others right. REQUIRES: all rows have as
/// many cells.
std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace attention
