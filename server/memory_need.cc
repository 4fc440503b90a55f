#include "server/memory_need.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/attention/kv_memory.h"
#include "core/runtime/control_groups.h"
#include "server/log/log.h"
#include "server/services/plan/saturating.h"

namespace attention {
namespace {

// What a queued request holds at least, besides its tensors.
constexpr int64_t kRequestBytes = int64_t{64} << 10;
// So that sessions can be opened however small their cache is.
constexpr int64_t kMinTableBytes = int64_t{1} << 20;
// The number of messages of the greatest size that arrive at a time.
constexpr int64_t kUploads = 8;
constexpr int64_t kConnectionBytes = 20'000;
constexpr int64_t kTlsConnectionBytes = 81'000;
// Batches and gRPC.
constexpr int64_t kOtherBytes = int64_t{512} << 20;

int64_t Mebibytes(int64_t bytes) { return bytes >> 20; }

}  // namespace

int64_t MaxWaitingBytes(const ServerOptions& options) { return options.max_queue_bytes / 4; }

int64_t MaxTableBytes(const ServerOptions& options) {
  return std::max(options.max_cache_bytes / 8, kMinTableBytes);
}

int64_t MemoryNeed(const ServerOptions& options) {
  const int64_t per_connection =
      options.tls_certificate.empty() ? kConnectionBytes : kTlsConnectionBytes;
  int64_t sum = kOtherBytes;
  for (const int64_t part :
       {std::max(SaturatingSum(options.max_queue_bytes, options.max_queue_bytes / 10 * 4),
                 SaturatingProduct({kRequestBytes, options.max_queue_requests})),
        MaxWaitingBytes(options), options.max_reply_bytes,
        static_cast<int64_t>(
            std::min(KvMemory::MostMappedBytes(static_cast<size_t>(options.max_cache_bytes)),
                     size_t{std::numeric_limits<int64_t>::max()})),
        MaxTableBytes(options), SaturatingProduct({kUploads, options.max_message_bytes}),
        SaturatingProduct({per_connection, options.connections.max_connections})}) {
    sum = SaturatingSum(sum, part);
  }
  return sum;
}

std::string MemoryWarning(const ServerOptions& options, int64_t group_bytes) {
  const int64_t need = MemoryNeed(options);
  return group_bytes == 0 || need <= group_bytes
             ? ""
             : absl::StrCat(
                   "the limits allow the server ", Mebibytes(need),
                   " MiB besides its models, its control group allows ", Mebibytes(group_bytes),
                   " MiB, and beyond that the system ends the process: lower --max-queue-bytes, "
                   "--max-reply-bytes, --max-cache-bytes, --max-message-bytes or "
                   "--max-connections, or raise the limit of the group");
}

void WarnOfMemory(const ServerOptions& options) {
  const std::string warning = MemoryWarning(options, CgroupMemoryLimit("/"));
  if (!warning.empty()) {
    Log(LogLevel::kWarning, warning);
  }
}

}  // namespace attention
