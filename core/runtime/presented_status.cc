#include "core/runtime/presented_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

// The longest mark of a cut: " [12345 bytes left out] " with any number.
constexpr size_t kMaxMark = 48;
// The bytes that are kept at the end, where a text says what was found.
constexpr size_t kTail = kMaxStatusText / 4;
constexpr size_t kHead = kMaxStatusText - kTail - kMaxMark;

unsigned char ByteAt(const std::string& text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Whether byte `at` continues a character of UTF-8.
bool IsWithin(const std::string& text, size_t at) {
  return at < text.size() && (ByteAt(text, at) & 0xC0) == 0x80;
}

// Returns the size of the control character that begins at `at`, in UTF-8; 0 for another character.
size_t ControlBytes(const std::string& text, size_t at) {
  const unsigned char byte = ByteAt(text, at);
  if (byte < 0x20 || byte == 0x7F) {
    return 1;
  }
  const bool is_c1 = byte == 0xC2 && IsWithin(text, at + 1) && ByteAt(text, at + 1) < 0xA0;
  return is_c1 ? 2 : 0;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t control = ControlBytes(text, at);
    if (control == 0) {
      escaped += text[at];
      continue;
    }
    at += control - 1;  // its last byte is its number
    absl::StrAppend(&escaped, "\\x", absl::Hex(ByteAt(text, at), absl::kZeroPad2));
  }
  return escaped;
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
