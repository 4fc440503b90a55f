#include "core/models/seeded_model.h"

#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status BadValue(const std::string& key, const char* expected, const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("random model: ", key, ": expected ", expected, ", found '", found, "'"));
}

absl::Status SetDtype(const std::string& value, SeededModelSpec& spec) {
  if (value != "fp32" && value != "bf16") {
    return BadValue("dtype", "fp32 or bf16", value);
  }
  spec.dtype = value == "bf16" ? Dtype::kBf16 : Dtype::kF32;
  return absl::OkStatus();
}

absl::Status SetCausal(const std::string& value, SeededModelSpec& spec) {
  if (!absl::SimpleAtob(value, &spec.causal)) {
    return BadValue("causal", "true or false", value);
  }
  return absl::OkStatus();
}

absl::Status SetField(const std::string& key, const std::string& value, SeededModelSpec& spec) {
  if (key == "dtype") {
    return SetDtype(value, spec);
  }
  if (key == "causal") {
    return SetCausal(value, spec);
  }
  if (key == "seed") {
    return absl::SimpleAtoi(value, &spec.seed) ? absl::OkStatus()
                                               : BadValue(key, "a number", value);
  }
  const std::map<std::string, int64_t*> fields = {{"d_model", &spec.d_model},
                                                  {"num_heads", &spec.num_heads},
                                                  {"num_kv_heads", &spec.num_kv_heads},
                                                  {"head_dim", &spec.head_dim},
                                                  {"value_head_dim", &spec.value_head_dim},
                                                  {"vocab_size", &spec.vocab_size},
                                                  {"max_positions", &spec.max_positions}};
  const auto field = fields.find(key);
  if (field == fields.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "random model: unknown key '", key, "': expected one of ",
        absl::StrJoin(fields, ", ", [](std::string* out, const auto& f) { out->append(f.first); }),
        ", dtype, causal, seed"));
  }
  if (!absl::SimpleAtoi(value, field->second) || *field->second < 1) {
    return BadValue(key, "a positive number", value);
  }
  return absl::OkStatus();
}

}  // namespace

SeededModelSpec DemoModelSpec() {
  return {.name = "demo",
          .seed = 1,
          .d_model = 512,
          .num_heads = 8,
          .vocab_size = 1000,
          .max_positions = 2048};
}

absl::StatusOr<SeededModelSpec> ParseSeededModelSpec(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  SeededModelSpec spec{.name = parts.front()};
  if (parts.size() != 2 || spec.name.empty()) {
    return BadValue("text", "NAME:d_model=N,num_heads=N", text);
  }
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(parts[1], ','))) {
    const std::vector<std::string> pair = absl::StrSplit(item, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return BadValue("item", "key=value", item);
    }
    RETURN_IF_ERROR(SetField(pair[0], pair[1], spec));
  }
  return spec;
}

}  // namespace attention
