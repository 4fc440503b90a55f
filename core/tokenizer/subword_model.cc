#include "core/tokenizer/subword_model.h"

#include <string>

#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

// Returns the type of the model, which files from before 2021 do not name.
absl::StatusOr<std::string> TypeOf(const JsonObject& model) {
  const nlohmann::json* vocabulary = model.Find("vocab");
  const char* guess = model.Find("merges") != nullptr                     ? "BPE"
                      : model.Find("max_input_chars_per_word") != nullptr ? "WordPiece"
                      : vocabulary != nullptr && vocabulary->is_array()   ? "Unigram"
                                                                          : "";
  return model.StringOr("type", guess);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubwordModel>> ParseSubwordModel(const JsonObject& file) {
  ASSIGN_OR_RETURN(const JsonObject model, file.Object("model"));
  ASSIGN_OR_RETURN(const std::string type, TypeOf(model));
  if (type == "BPE") {
    return ParseBytePairModel(model);
  }
  if (type == "WordPiece") {
    return ParseWordPieceModel(model);
  }
  if (type == "Unigram") {
    return ParseUnigramModel(model);
  }
  return model.Wrong("type", "BPE, WordPiece or Unigram");
}

}  // namespace attention
