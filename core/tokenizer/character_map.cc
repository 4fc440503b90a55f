#include "core/tokenizer/character_map.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/utf8.h"
#include "core/tokenizer/unicode.h"

namespace attention {
namespace {

constexpr char kMember[] = "precompiled_charsmap";
/// The largest map in base64; the known ones have some 300 KiB.
constexpr size_t kMaxMapBytes = size_t{4} << 20;
/// Characters with marks are looked up as one if they have fewer bytes than this, as in the
/// library.
constexpr size_t kMinSplitBytes = 6;

// A unit of the trie: a node's label, whether a key ends there, and the offset to its children.
bool EndsKey(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LabelOf(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xFF); }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & uint32_t{1} << 9) >> 6); }
uint32_t ValueOf(uint32_t unit) { return unit & ~(uint32_t{1} << 31); }

uint32_t NumberAt(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (int i = 3; i >= 0; --i) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

size_t CharactersIn(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    NextCharacter(text, at);
  }
  return count;
}

/// Joins replacements, and follows which of them come from the first character of the whole text as
/// the library counts. The last character of a replacement with fewer characters stands for the
/// rest of the old ones. Those that a replacement has more than the old text follow its last
/// character.
class Replaced {
 public:
  explicit Replaced(const Piece& piece)
      : first_characters_(CharactersIn(std::string_view(piece.text).substr(0, piece.first_bytes))) {
    piece_.text.reserve(piece.text.size());
  }

  void Add(size_t old_characters, std::string_view text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); ++count) {
      const size_t begin = at;
      NextCharacter(text, at);
      EndCharacter();
      piece_.text += text.substr(begin, at - begin);
      taken_ = count < old_characters ? 1 : 0;
      is_open_ = true;
    }
    if (is_open_ && count < old_characters) {
      taken_ += old_characters - count;
    }
  }

  Piece Finish() && {
    EndCharacter();
    return std::move(piece_);
  }

 private:
  // Gives the last character of the text the old characters that it has taken.
  void EndCharacter() {
    if (std::exchange(is_open_, false)) {
      const bool is_first = taken_ == 0 ? next_ <= first_characters_ : next_ < first_characters_;
      piece_.first_bytes =
          is_first && first_characters_ > 0 ? piece_.text.size() : piece_.first_bytes;
      next_ += taken_;
    }
  }

  Piece piece_;
  const size_t first_characters_;
  size_t next_ = 0;   // the next old character
  size_t taken_ = 0;  // the number of old characters that the last new one stands for
  bool is_open_ = false;
};

}  // namespace

absl::StatusOr<CharacterMap> CharacterMap::Parse(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::string encoded, step.String(kMember));
  std::string bytes;
  if (encoded.size() > kMaxMapBytes || !absl::Base64Unescape(encoded, &bytes)) {
    return step.Wrong(kMember, absl::StrCat("at most ", kMaxMapBytes, " bytes of base64"));
  }
  const size_t trie_bytes = bytes.size() < 4 ? 0 : NumberAt(bytes, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) {
    return step.Wrong(kMember, "the size of a trie, and the trie",
                      absl::StrCat(bytes.size(), " bytes, a size of ", trie_bytes));
  }
  CharacterMap map;
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) {
    map.trie_.push_back(NumberAt(bytes, at));
  }
  map.replacements_ = bytes.substr(4 + trie_bytes);
  RETURN_IF_ERROR(map.Check(step));
  return map;
}

// Walks over all nodes. Some may be children of several, or of themselves.
absl::Status CharacterMap::Check(const JsonObject& step) const {
  if (FindInvalidUtf8(replacements_).has_value()) {
    return step.Wrong(kMember, "replacements in UTF-8", "others");
  }
  const auto is_replacement = [&](size_t at) {
    return at <= replacements_.size() &&
           (at == replacements_.size() || (static_cast<uint8_t>(replacements_[at]) & 0xC0) != 0x80);
  };
  std::vector<bool> is_known(trie_.size());
  std::vector<uint32_t> nodes = {OffsetOf(trie_[0])};
  while (!nodes.empty()) {
    const uint32_t node = nodes.back();
    nodes.pop_back();
    for (uint32_t label = 1; label < 256; ++label) {
      const uint32_t at = node ^ label;
      if (at >= trie_.size()) {
        return step.Wrong(kMember, absl::StrCat("a trie within its ", trie_.size(), " units"),
                          absl::StrCat("unit ", at));
      }
      if (LabelOf(trie_[at]) != label || is_known[at]) {
        continue;
      }
      is_known[at] = true;
      const uint32_t next = at ^ OffsetOf(trie_[at]);
      nodes.push_back(next);
      if (EndsKey(trie_[at]) && (next >= trie_.size() || !is_replacement(ValueOf(trie_[next])))) {
        return step.Wrong(kMember, "places of replacements", "another place");
      }
    }
  }
  return absl::OkStatus();
}

std::optional<std::string_view> CharacterMap::Find(std::string_view text) const {
  uint32_t node = OffsetOf(trie_[0]);
  for (const char byte : text) {
    const uint32_t label = static_cast<uint8_t>(byte);
    const uint32_t at = node ^ label;
    if (label == 0 || LabelOf(trie_[at]) != label) {
      return std::nullopt;
    }
    node = at ^ OffsetOf(trie_[at]);
    if (EndsKey(trie_[at])) {
      const size_t begin = ValueOf(trie_[node]);
      const size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
      return std::string_view(replacements_).substr(begin, end - begin);
    }
  }
  return std::nullopt;
}

absl::Status CharacterMap::Apply(Piece& piece) const {
  Replaced replaced(piece);
  RETURN_IF_ERROR(ForEachGrapheme(piece.text, [&](std::string_view grapheme) {
    if (grapheme.size() < kMinSplitBytes) {
      if (const std::optional<std::string_view> found = Find(grapheme)) {
        replaced.Add(CharactersIn(grapheme), *found);
        return;
      }
    }
    for (size_t at = 0; at < grapheme.size();) {
      const size_t begin = at;
      NextCharacter(grapheme, at);
      const std::string_view character = grapheme.substr(begin, at - begin);
      replaced.Add(1, Find(character).value_or(character));
    }
  }));
  piece = std::move(replaced).Finish();
  return absl::OkStatus();
}

}  // namespace attention
