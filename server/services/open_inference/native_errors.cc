#include "server/services/open_inference/native_errors.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

std::string Quoted(std::string_view kind, const std::string& name) {
  return absl::StrCat(std::string(kind), " \"", name, "\"");
}

struct Renaming {
  const char* field;
  std::string name;
};

// A field stands before those it begins with.
const Renaming* FindRenaming(std::string_view message) {
  static const Renaming renamings[] = {
      {"hidden_states.tensor", InputName("hidden_states")},
      {"hidden_states.lengths", InputName("lengths")},
      {"hidden_states.memory_lengths", InputName("memory_lengths")},
      {"hidden_states.memory_values", InputName("memory_values")},
      {"hidden_states.memory", InputName("memory")},
      {"token_ids.ids", InputName("input_ids")},
      {"token_ids.type_ids", InputName("token_type_ids")},
      {"token_ids.lengths", InputName("lengths")},
      {"token_ids", InputName("input_ids")},
      {"query_key_value.query", InputName("query")},
      {"query_key_value.key", InputName("key")},
      {"query_key_value.value", InputName("value")},
      {"query_key_value.kv_lengths", InputName("kv_lengths")},
      {"query_key_value", "inputs"},
      {"options.causal", ParameterName("causal")},
      {"options.scale", ParameterName("scale")},
      {"options.softcap", ParameterName("softcap")},
      {"options.window", ParameterName("window")},
      {"options.bias", InputName("bias")},
      {"layer", ParameterName("layer")},
      {"model_version", "model_version"},
      {"model: expected one of", "model_name: expected one of \"attention\","},
      {"model", "model_name"},
      {"input", "inputs"},
  };
  for (const Renaming& renaming : renamings) {
    const std::string_view field = renaming.field;
    // Not `options.window_right` for `options.window`.
    if (message.substr(0, field.size()) == field && message.size() > field.size() &&
        std::string_view(".[: ").find(message[field.size()]) != std::string_view::npos) {
      return &renaming;
    }
  }
  return nullptr;
}

}  // namespace

std::string InputName(const std::string& name) { return Quoted("input", name); }
std::string OutputName(const std::string& name) { return Quoted("output", name); }
std::string ParameterName(const std::string& name) { return Quoted("parameter", name); }

absl::Status InOpenInferenceWords(const absl::Status& status) {
  const std::string message(status.message());
  const Renaming* const renaming = FindRenaming(message);
  // `model "x" is being loaded` begins with a word, not with a field.
  if (renaming == nullptr || absl::StartsWith(message, "model \"")) {
    return status;
  }
  std::string rest = message.substr(std::string_view(renaming->field).size());
  if (absl::StartsWith(rest, ".")) {
    rest[0] = ' ';
  }
  rest = absl::StrReplaceAll(rest, {{" as hidden_states.tensor,", " as hidden_states,"},
                                    {", found token_ids", ", found input_ids"},
                                    {"goes with layer:", "goes with parameter \"layer\":"}});
  return absl::Status(status.code(), absl::StrCat(renaming->name, rest));
}

}  // namespace attention
