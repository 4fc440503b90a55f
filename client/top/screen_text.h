// Text that fits a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace attention {

/// `text` with '?' for each control character.
std::string ForTerminal(const std::string& text);

/// Columns of `text`: its code points. REQUIRES: UTF-8 without control characters.
int Columns(const std::string& text);

/// The first `width` columns, and an ellipsis ("~") instead of the last where something is lost.
std::string Cut(const std::string& text, int width);

/// `text` in `width` columns: cut, or filled with spaces behind it (in front of it).
std::string PadRight(const std::string& text, int width);
std::string PadLeft(const std::string& text, int width);

/// "12.3 MiB".
std::string BytesText(int64_t bytes);
/// "3d 4h", "4h 05m", "5m 06s" or "6s".
std::string UptimeText(int64_t ns);
/// With as many decimals as make three digits: "0.12", "12.3", "1234"; "-" for none.
std::string NumberText(std::optional<double> value);

}  // namespace attention
