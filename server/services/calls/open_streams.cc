#include "server/services/calls/open_streams.h"

#include "absl/strings/str_cat.h"
#include "server/scheduling/refusal.h"
#include "server/security/access.h"

namespace attention {
namespace {

constexpr int64_t kRetryStreamMs = 1000;

}  // namespace

absl::StatusOr<OpenStreams::Slot> OpenStreams::TakeSlot(const grpc::ServerContext& context,
                                                        std::string_view rpc) {
  const std::string account = AccountOf(Caller(), context);
  Slot slot = slots_.Take(account, 1);
  if (slot == nullptr) {
    return Refuse(absl::StatusCode::kResourceExhausted,
                  absl::StrCat(std::string(rpc), ": ", count(), " of ", slots_.total(),
                               " streams without a token are open, and ", account,
                               " may hold at most as many as it leaves free"),
                  {.reason = RefusalReason::kLimit, .retry_after_ms = kRetryStreamMs});
  }
  return slot;
}

}  // namespace attention
