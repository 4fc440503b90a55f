#include "client/cli/show/text_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/token_text.h"

namespace attention {

std::string TextTable(std::vector<std::vector<std::string>> rows) {
  std::vector<int64_t> widths;
  for (std::vector<std::string>& row : rows) {
    widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = ShownLine(row[i]);
      widths[i] = std::max(widths[i], ColumnsOf(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line = absl::StrCat(row[0], Spaces(widths[0] - ColumnsOf(row[0])));
    for (size_t i = 1; i < row.size(); ++i) {
      absl::StrAppend(&line, "  ", PadLeft(row[i], widths[i]));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace attention
