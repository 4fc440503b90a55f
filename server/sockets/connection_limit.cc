#include "server/sockets/connection_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/log/log.h"

namespace attention {
namespace {

// The files that a server needs besides the connections of one listener: its listeners, pages of
// metrics, and models that are being read.
constexpr int64_t kOwnFiles = 128;

}  // namespace

int64_t ConnectionsWithin(uint64_t max_files, int64_t wanted) {
  const auto files =
      static_cast<int64_t>(std::min<uint64_t>(max_files, std::numeric_limits<int64_t>::max()));
  return std::min(wanted, std::max(files - kOwnFiles, files / 2));
}

std::string FewFilesWarning(int64_t max_connections, uint64_t max_files) {
  const int64_t needed = max_connections + kOwnFiles;
  return std::cmp_greater_equal(max_files, needed)
             ? ""
             : absl::StrCat(
                   "--max-connections: expected a limit of open files (ulimit -n) of at "
                   "least ",
                   needed, ", ", kOwnFiles, " of which are the server's own, found ", max_files,
                   "; each listener takes at most ", ConnectionsWithin(max_files, max_connections),
                   " connections");
}

int64_t ConnectionsWithinOwnLimit(int64_t wanted) {
  static std::atomic<bool> has_warned = false;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return wanted;
  }
  const std::string warning = FewFilesWarning(wanted, limit.rlim_cur);
  if (!warning.empty() && !has_warned.exchange(true)) {
    Log(LogLevel::kWarning, warning);
  }
  return ConnectionsWithin(limit.rlim_cur, wanted);
}

}  // namespace attention
