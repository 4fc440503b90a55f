#include "client/cli/files/output_file.h"

#include <iostream>

#include "core/runtime/output_file.h"

namespace attention {

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path != "-") {
    return WriteFile(path, {text});
  }
  std::cout << text << std::flush;
  return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
}

}  // namespace attention
