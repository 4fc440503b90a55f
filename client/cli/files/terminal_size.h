// The size of the terminal at standard output.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace attention {

struct TerminalSize {
  int64_t columns = 80;
  int64_t rows = 24;
};

/// Returns the size of the terminal; absent if the file, standard output, is not a terminal.
inline std::optional<TerminalSize> SizeOfTerminal(int file = STDOUT_FILENO) {
  winsize size = {};
  if (ioctl(file, TIOCGWINSZ, &size) != 0) {
    return std::nullopt;
  }
  return size.ws_col == 0 ? TerminalSize() : TerminalSize{size.ws_col, size.ws_row};
}

}  // namespace attention
