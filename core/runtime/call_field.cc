#include "core/runtime/call_field.h"

#include <string>

namespace attention {

absl::Status WrongField(const CallField& field, const absl::AlphaNum& expected,
                        const absl::AlphaNum& found) {
  const std::string sequence =
      field.sequence < 0 ? "" : absl::StrCat("sequence ", field.sequence, ": ");
  return absl::InvalidArgumentError(absl::StrCat(sequence, field.name, field.part, ": expected ",
                                                 expected.Piece(), ", found ", found.Piece()));
}

absl::Status ExpectEqual(const CallField& field, int64_t expected, int64_t found) {
  return expected == found ? absl::OkStatus() : WrongField(field, expected, found);
}

absl::Status ExpectWithin(const CallField& field, int64_t least, int64_t most, int64_t found) {
  return found >= least && found <= most
             ? absl::OkStatus()
             : WrongField(field, absl::StrCat(least, " to ", most), found);
}

}  // namespace attention
