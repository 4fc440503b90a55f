#include "core/tokenizer/post_processor.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/status_macros.h"
#include "core/tokenizer/steps.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;
using Parts = std::vector<PostProcessor::Part>;

// The largest number of parts, so that a small file cannot make large results of each text. Known
// templates have 3 parts of one id.
constexpr size_t kMaxParts = 16;
constexpr size_t kMaxSpecialIds = 16;

// Reads a special token as ["[SEP]", 102].
absl::StatusOr<PostProcessor::Part> ParseNamedId(const JsonObject& step, const char* member) {
  const json* pair = step.Find(member);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[0].is_string()) {
    return step.Wrong(member, "a token and its id");
  }
  ASSIGN_OR_RETURN(const int32_t id, ParseId((*pair)[1], step.PlaceOf(member)));
  return PostProcessor::Part{.ids = {id}};
}

// Reads BertProcessing and RobertaProcessing.
absl::StatusOr<Parts> ParseAround(const JsonObject& step) {
  ASSIGN_OR_RETURN(PostProcessor::Part first, ParseNamedId(step, "cls"));
  ASSIGN_OR_RETURN(PostProcessor::Part last, ParseNamedId(step, "sep"));
  return Parts{std::move(first), {.is_text = true}, std::move(last)};
}

// Reads ByteLevel, which only moves offsets.
absl::StatusOr<Parts> ParseNothingToAdd(const JsonObject&) { return Parts{}; }

absl::StatusOr<std::vector<int32_t>> ParseSpecialIds(const JsonObject& step,
                                                     const std::string& name) {
  ASSIGN_OR_RETURN(const JsonObject tokens, step.Object("special_tokens"));
  ASSIGN_OR_RETURN(const JsonObject token, tokens.Object(name.c_str()));
  ASSIGN_OR_RETURN(const json* list, token.List("ids"));
  if (list->size() > kMaxSpecialIds) {
    return token.Wrong("ids", absl::StrCat("at most ", kMaxSpecialIds, " ids"));
  }
  std::vector<int32_t> ids;
  for (const json& value : *list) {
    ASSIGN_OR_RETURN(const int32_t id, ParseId(value, token.PlaceOf("ids")));
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<PostProcessor::Part> ParsePart(const JsonObject& step, const JsonObject& piece) {
  const bool is_text = piece.Find("Sequence") != nullptr;
  ASSIGN_OR_RETURN(const JsonObject object, piece.Object(is_text ? "Sequence" : "SpecialToken"));
  ASSIGN_OR_RETURN(const std::string name, object.String("id"));
  PostProcessor::Part part{.is_text = is_text};
  ASSIGN_OR_RETURN(part.type_id, ParseId(object, "type_id"));
  if (!is_text) {
    ASSIGN_OR_RETURN(part.ids, ParseSpecialIds(step, name));
  } else if (name != "A") {
    return object.Wrong("id", "\"A\", since only one text is supported");
  }
  return part;
}

absl::StatusOr<Parts> ParseTemplate(const JsonObject& step) {
  ASSIGN_OR_RETURN(const std::vector<JsonObject> pieces, step.Objects("single"));
  if (pieces.size() > kMaxParts) {
    return step.Wrong("single", absl::StrCat("at most ", kMaxParts, " parts"));
  }
  Parts parts;
  for (const JsonObject& piece : pieces) {
    ASSIGN_OR_RETURN(PostProcessor::Part part, ParsePart(step, piece));
    parts.push_back(std::move(part));
  }
  return parts;
}

constexpr StepKind<Parts> kPostProcessors[] = {
    {"BertProcessing", ParseAround},
    {"RobertaProcessing", ParseAround},
    {"TemplateProcessing", ParseTemplate},
    {"ByteLevel", ParseNothingToAdd},
};

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Parse(const JsonObject& file) {
  ASSIGN_OR_RETURN(const std::vector<JsonObject> steps,
                   ParseSteps(file, "post_processor", "processors"));
  PostProcessor processor;
  bool has_template = false;
  for (const JsonObject& step : steps) {
    ASSIGN_OR_RETURN(Parts parts, ParseStep(step, kPostProcessors));
    ASSIGN_OR_RETURN(const std::string type, step.String("type"));
    if (type == "ByteLevel") {
      continue;
    }
    if (has_template) {
      return step.Wrong("type", "one step that adds special tokens, at most");
    }
    has_template = true;
    processor.parts_ = std::move(parts);
  }
  return processor;
}

int64_t PostProcessor::CountOf(int64_t num_ids, bool add_special_tokens) const {
  int64_t count = 0;
  for (const Part& part : parts_) {
    count += part.is_text ? num_ids : add_special_tokens ? std::ssize(part.ids) : 0;
  }
  return count;
}

PostProcessor::TypedIds PostProcessor::Apply(const std::vector<int32_t>& ids,
                                             bool add_special_tokens) const {
  TypedIds result;
  for (const Part& part : parts_) {
    if (part.is_text || add_special_tokens) {
      const std::vector<int32_t>& added = part.is_text ? ids : part.ids;
      result.ids.insert(result.ids.end(), added.begin(), added.end());
      result.type_ids.resize(result.ids.size(), part.type_id);
    }
  }
  return result;
}

}  // namespace attention
