#include "core/runtime/presented_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/control_characters.h"

namespace attention {
namespace {

// The longest mark of a cut: " [12345 bytes left out] " with any number.
constexpr size_t kMaxMark = 48;
// The bytes that are kept at the end, where a text says what was found.
constexpr size_t kTail = kMaxStatusText / 4;
constexpr size_t kHead = kMaxStatusText - kTail - kMaxMark;

// Whether byte `at` continues a character of UTF-8.
bool IsWithin(const std::string& text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

std::string Escaped(const std::string& text) {
  return ReplaceControls(text, [](uint32_t code) {
    return code < 0x100 ? absl::StrCat("\\x", absl::Hex(code, absl::kZeroPad2)) : JsonEscape(code);
  });
}

std::string Cut(const std::string& text) {
  if (text.size() <= kMaxStatusText) {
    return text;
  }
  size_t head = kHead;
  while (head > 0 && IsWithin(text, head)) {
    --head;
  }
  size_t tail = text.size() - kTail;
  while (IsWithin(text, tail)) {
    ++tail;
  }
  return absl::StrCat(text.substr(0, head), " [", tail - head, " bytes left out] ",
                      text.substr(tail));
}

}  // namespace

absl::Status Presented(const absl::Status& status) {
  // The text is cut before it is escaped, since it may be as long as a request, and again after,
  // since escapes are longer.
  return WithText(status, Cut(Escaped(Cut(std::string(status.message())))));
}

absl::Status WithText(const absl::Status& status, absl::string_view text) {
  absl::Status changed(status.code(), text);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

}  // namespace attention
