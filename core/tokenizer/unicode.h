// The Unicode functions of the tokenizer, based on ICU. The `tokenizers` library has tables of
// several Unicode versions. Where they are older than ICU's, newer characters count as unassigned
// here too, so that the results agree and do not depend on the version of ICU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace attention {

/// Returns the character at byte `at`, and moves `at` past it. REQUIRES: at < text.size(), and
/// valid UTF-8.
int32_t NextCharacter(std::string_view text, size_t& at);
void AppendCharacter(int32_t character, std::string& text);

bool IsSpace(int32_t character);           // White_Space
bool IsWordCharacter(int32_t character);   // \w of Rust's regex crate
bool IsNumeric(int32_t character);         // Nd, Nl, No
bool IsPunctuation(int32_t character);     // P (Unicode 8), or any ASCII sign that is no letter
bool IsNonspacingMark(int32_t character);  // Mn (Unicode 8)
bool IsMark(int32_t character);            // M (Unicode 9)
bool IsControl(int32_t character);         // Cc, Cf, Co (Unicode 8) but tab and line ends
bool IsCjkIdeograph(int32_t character);    // as BERT's own code has it

void AppendLowercase(int32_t character, std::string& text);

/// Calls `use` for each grapheme of `text`, a character with the marks that belong to it (extended
/// grapheme clusters, https://unicode.org/reports/tr29). INTERNAL or std::bad_alloc when ICU fails,
/// which happens only when it is out of memory.
absl::Status ForEachGrapheme(std::string_view text, absl::FunctionRef<void(std::string_view)> use);

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

/// Normalizes `text`. INTERNAL when ICU fails, which happens only when it is out of memory.
absl::StatusOr<std::string> Normalized(NormalizationForm form, std::string_view text);

}  // namespace attention
