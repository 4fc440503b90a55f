// Errors about a field of a call: "sequence 3: output rows: expected 5, found 4".
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {

/// A field of a call, as errors name it.
struct CallField {
  const char* name = nullptr;
  const char* part = "";  // a suffix of the name: " rows"
  /// The sequence of the field; -1: the field belongs to the call.
  int64_t sequence = -1;
};

/// Returns INVALID_ARGUMENT about the field.
absl::Status WrongField(const CallField& field, const absl::AlphaNum& expected,
                        const absl::AlphaNum& found);
/// Returns the error unless the field has the expected value.
absl::Status ExpectEqual(const CallField& field, int64_t expected, int64_t found);
/// Returns the error unless the field is in [least, most].
absl::Status ExpectWithin(const CallField& field, int64_t least, int64_t most, int64_t found);

}  // namespace attention
