#include "core/runtime/short_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

constexpr char kGap[] = " [...] ";
// What was expected comes first, what was found at the end.
constexpr size_t kTail = kMaxStatusText / 4;
constexpr size_t kHead = kMaxStatusText - kTail - (sizeof(kGap) - 1);

// Whether a character of UTF-8 goes on there.
bool IsWithin(const std::string& text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

absl::Status Shortened(const absl::Status& status) {
  if (status.message().size() <= kMaxStatusText) {
    return status;
  }
  const std::string text(status.message());
  size_t head = kHead;
  while (head > 0 && IsWithin(text, head)) {
    --head;
  }
  size_t tail = text.size() - kTail;
  while (IsWithin(text, tail)) {
    ++tail;
  }
  absl::Status shortened(status.code(),
                         absl::StrCat(text.substr(0, head), kGap, text.substr(tail)));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    shortened.SetPayload(type, payload);
  });
  return shortened;
}

}  // namespace attention
