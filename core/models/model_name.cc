#include "core/models/model_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

// In bytes. It bounds the names of health services and of columns.
constexpr size_t kMaxNameLength = 128;

}  // namespace

absl::Status ValidateModelName(const std::string& name) {
  const bool is_fit = !name.empty() && name.size() <= kMaxNameLength &&
                      std::all_of(name.begin(), name.end(), [](char c) {
                        return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                      });
  return is_fit ? absl::OkStatus()
                : absl::InvalidArgumentError(
                      absl::StrCat("model name: expected at most ", kMaxNameLength,
                                   " letters, digits, dots, dashes and underscores, found '",
                                   absl::CEscape(name), "'"));
}

}  // namespace attention
