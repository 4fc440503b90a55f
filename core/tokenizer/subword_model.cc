#include "core/tokenizer/subword_model.h"

#include <string>

#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// Returns the type of the model, which files from before 2021 do not name.
absl::StatusOr<std::string> TypeOf(const JsonObject& model) {
  const char* guess = model.Find("merges") != nullptr                     ? "BPE"
                      : model.Find("max_input_chars_per_word") != nullptr ? "WordPiece"
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
  return model.Wrong("type", "BPE or WordPiece");
}

}  // namespace attention
