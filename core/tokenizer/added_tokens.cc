#include "core/tokenizer/added_tokens.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/steps.h"

namespace attention {
namespace {

// Returns the position at which the white space that ends at `end` begins, but at least `least`.
size_t SpaceBegin(std::string_view text, size_t end, size_t least) {
  size_t begin = end;
  while (begin > least) {
    size_t character_begin = begin - 1;
    while ((static_cast<uint8_t>(text[character_begin]) & 0xC0) == 0x80) {
      --character_begin;
    }
    size_t at = character_begin;
    if (!IsSpace(NextCharacter(text, at))) {
      break;
    }
    begin = character_begin;
  }
  return begin;
}

size_t SpaceEnd(std::string_view text, size_t begin) {
  size_t end = begin;
  for (size_t at = begin; at < text.size() && IsSpace(NextCharacter(text, at));) {
    end = at;
  }
  return end;
}

bool EndsWithWordCharacter(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80) {
  }
  return !text.empty() && IsWordCharacter(NextCharacter(text, begin));
}

bool BeginsWithWordCharacter(std::string_view text) {
  size_t at = 0;
  return !text.empty() && IsWordCharacter(NextCharacter(text, at));
}

// Whether no letter or digit touches text[begin, end).
bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  return !EndsWithWordCharacter(text.substr(0, begin)) &&
         !BeginsWithWordCharacter(text.substr(end));
}

}  // namespace

absl::Status AddedTokens::Add(const JsonObject& object, const Vocabulary& vocabulary) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, object.String("content"));
  ASSIGN_OR_RETURN(token.single_word, object.Bool("single_word"));
  ASSIGN_OR_RETURN(token.lstrip, object.Bool("lstrip"));
  ASSIGN_OR_RETURN(token.rstrip, object.Bool("rstrip"));
  ASSIGN_OR_RETURN(token.normalized, object.Bool("normalized"));
  RETURN_IF_ERROR(object.Bool("special").status());
  RETURN_IF_ERROR(ParseId(object, "id").status());
  if (token.content.empty()) {
    return absl::OkStatus();
  }
  std::optional<int32_t> id = vocabulary.Find(token.content);
  if (const auto known = ids_.find(token.content); known != ids_.end()) {
    id = known->second;
  }
  if (!id.has_value()) {
    if (next_id_ == kMaxTokenIds) {
      return object.Wrong("content", absl::StrCat("at most ", kMaxTokenIds, " tokens in all"));
    }
    id = next_id_++;
  }
  ids_[token.content] = *id;
  tokens_[*id] = std::move(token);
  return absl::OkStatus();
}

absl::Status AddedTokens::BuildTries(const Normalizer& normalizer) {
  for (const auto& [id, token] : tokens_) {
    Piece content{.text = token.content};
    if (token.normalized) {
      RETURN_IF_ERROR(normalizer.Apply(content));
    }
    if (content.text.size() > kMaxSearchedTokenBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens: expected tokens of at most ", kMaxSearchedTokenBytes,
                       " bytes, found one of ", content.text.size(), ", with the id ", id));
    }
    Trie& trie = token.normalized ? in_normalized_ : in_text_;
    const std::optional<Trie::Match> known = trie.FindLongest(content.text);
    // Of tokens that become the same text, the one of the lowest id is found. The library takes any
    // of them, a different one in each process.
    if (!content.text.empty() && (!known.has_value() || known->size_bytes < content.text.size())) {
      trie.Add(content.text, id);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AddedTokens> AddedTokens::Parse(const JsonObject& file, const Vocabulary& vocabulary,
                                               const Normalizer& normalizer) {
  AddedTokens added;
  added.next_id_ = static_cast<int32_t>(vocabulary.size());
  if (file.Find("added_tokens") != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<JsonObject> objects, file.Objects("added_tokens"));
    for (const JsonObject& object : objects) {
      RETURN_IF_ERROR(added.Add(object, vocabulary));
    }
  }
  RETURN_IF_ERROR(added.BuildTries(normalizer));
  return added;
}

absl::Status AddedTokens::Split(const Trie& trie, Piece piece, SegmentSink segments) const {
  const std::string_view text = piece.text;
  size_t done = 0;       // is larger than `at` when a token took the white space after it
  size_t space_end = 0;  // the end of that white space, which is not scanned again
  for (size_t at = 0; at < text.size();) {
    const std::optional<Trie::Match> match = trie.FindLongest(text.substr(at));
    if (!match.has_value()) {
      ++at;
      continue;
    }
    const size_t end = at + match->size_bytes;
    const AddedToken& token = tokens_.at(match->value);
    // White space that an earlier token took is no token of its own, if it may be taken.
    const bool is_taken = token.lstrip && end <= done;
    if (!is_taken && (!token.single_word || StandsAlone(text, at, end))) {
      const size_t begin = token.lstrip ? SpaceBegin(text, at, done) : at;
      if (done < begin) {
        RETURN_IF_ERROR(segments({.piece = piece.Slice(done, begin)}));
      }
      RETURN_IF_ERROR(segments({.piece = {}, .id = match->value}));
      done = end;
      if (token.rstrip) {
        done = space_end = SpaceEnd(text, std::max(end, space_end));
      }
    }
    at = end;
  }
  if (done == text.size()) {
    return absl::OkStatus();
  }
  return segments({.piece = done == 0 ? std::move(piece) : piece.Slice(done, text.size())});
}

absl::Status AddedTokens::SplitText(Piece text, SegmentSink segments) const {
  return Split(in_text_, std::move(text), segments);
}

absl::Status AddedTokens::SplitNormalized(Piece text, SegmentSink segments) const {
  return Split(in_normalized_, std::move(text), segments);
}

}  // namespace attention
