#include "server/services/open_inference/native_errors.h"

#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/codec/option_parameters.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

constexpr std::string_view kInput = "input";
constexpr std::string_view kParameter = "parameter";

std::string Quoted(std::string_view kind, const std::string& name) {
  return absl::StrCat(std::string(kind), " \"", name, "\"");
}

// The name of a field of a native request in an Open Inference request.
struct Renaming {
  std::string_view kind;  // empty: the name stands alone
  std::string name;
};

std::map<std::string, Renaming> MakeRenamings() {
  std::map<std::string, Renaming> renamings = {
      {"hidden_states.tensor", {kInput, "hidden_states"}},
      {"hidden_states.lengths", {kInput, "lengths"}},
      {"hidden_states.memory_lengths", {kInput, "memory_lengths"}},
      {"hidden_states.memory_values", {kInput, "memory_values"}},
      {"hidden_states.memory", {kInput, "memory"}},
      {"token_ids.type_ids", {kInput, "token_type_ids"}},
      {"token_ids.lengths", {kInput, "lengths"}},
      {"token_ids", {kInput, "input_ids"}},
      {"query_key_value.query", {kInput, "query"}},
      {"query_key_value.key", {kInput, "key"}},
      {"query_key_value.value", {kInput, "value"}},
      {"query_key_value.kv_lengths", {kInput, "kv_lengths"}},
      {"query_key_value.lengths", {"", "inputs lengths"}},
      {"query_key_value", {"", "inputs"}},
      {"options.bias", {kInput, "bias"}},
      {"layer", {kParameter, "layer"}},
      {"input", {"", "inputs"}},
  };
  for (const auto* const option : OptionParameters()) {
    const std::string name(option->name());
    renamings["options." + name] = {kParameter, name};
  }
  return renamings;
}

const Renaming* FindRenaming(const std::string& field) {
  static const std::map<std::string, Renaming>& renamings = *new std::map(MakeRenamings());
  const auto found = renamings.find(field);
  return found == renamings.end() ? nullptr : &found->second;
}

// Returns the name in an error. The subject of the error has its kind; another input that it
// mentions has none.
std::string NewName(const std::string& field, bool is_subject) {
  const Renaming* const renaming = FindRenaming(field);
  if (renaming == nullptr) {
    return field;
  }
  const bool has_kind = renaming->kind == kParameter || (renaming->kind == kInput && is_subject);
  return has_kind ? Quoted(renaming->kind, renaming->name) : renaming->name;
}

}  // namespace

std::string InputName(const std::string& name) { return Quoted(kInput, name); }
std::string OutputName(const std::string& name) { return Quoted("output", name); }
std::string ParameterName(const std::string& name) { return Quoted(kParameter, name); }

absl::Status WithOpenInferenceNames(const absl::Status& status) {
  const std::vector<FieldSpan> fields = FieldsOf(status);
  if (fields.empty()) {
    return status;
  }
  const std::string text(status.message());
  std::string renamed;
  size_t end = 0;
  for (const FieldSpan& field : fields) {
    const std::string path = text.substr(field.begin, field.size);
    absl::StrAppend(&renamed, text.substr(end, field.begin - end),
                    NewName(path, /*is_subject=*/field.begin == 0));
    end = field.begin + field.size;
    // A part of the renamed field: `input "memory" shape`.
    if (end < text.size() && text[end] == '.' && FindRenaming(path) != nullptr) {
      renamed += ' ';
      ++end;
    }
  }
  return absl::Status(status.code(), renamed + text.substr(end));
}

}  // namespace attention
