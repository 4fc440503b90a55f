// Writes files whole or not at all.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention {

/// Writes `parts` one after the other to the file at `path`, or that to which a link there leads,
/// and replaces what was there, whose permissions it keeps, only when all is written. A pipe or a
/// terminal, such as /dev/stdout, is written in place. Several
/// threads may write to the same path at once: the file of the last one stays. Returns the system's
/// error, which names the file.
absl::Status WriteFile(const std::string& path, const std::vector<absl::string_view>& parts);

/// Returns the error that WriteFile would have now, as far as the folder and the permissions tell,
/// and writes nothing. For programs that work long before they write.
absl::Status CheckWritable(const std::string& path);

}  // namespace attention
