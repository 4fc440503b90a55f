#include "client/cli/files/token_file.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/plot/token_text.h"
#include "core/runtime/json_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using nlohmann::json;

/// Of one sequence; no keys: as the rows, or unnamed.
struct SequenceTokens {
  std::vector<std::string> rows;
  std::vector<std::string> keys = {};
};

absl::Status WrongTokens(const std::string& path, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": expected a list of tokens, a list of such lists, or {\"rows\": list, \"keys\": "
      "list}, found ",
      found));
}

absl::StatusOr<std::vector<std::string>> ParseTokenList(const std::string& path, const json& list) {
  std::vector<std::string> tokens;
  for (const json& token : list) {
    if (!list.is_array() || !token.is_string()) {
      return WrongTokens(path, token.dump());
    }
    tokens.push_back(ShownToken(UnmarkedToken(token.get<std::string>())));
  }
  return tokens;
}

absl::StatusOr<SequenceTokens> ParseSequence(const std::string& path, const json& value) {
  SequenceTokens tokens;
  if (value.is_object() && value.contains("rows") && value.contains("keys")) {
    ASSIGN_OR_RETURN(tokens.rows, ParseTokenList(path, value["rows"]));
    ASSIGN_OR_RETURN(tokens.keys, ParseTokenList(path, value["keys"]));
    return tokens;
  }
  if (!value.is_array()) {
    return WrongTokens(path, value.type_name());
  }
  ASSIGN_OR_RETURN(tokens.rows, ParseTokenList(path, value));
  return tokens;
}

absl::StatusOr<std::vector<SequenceTokens>> ParseJsonTokens(const std::string& path,
                                                            const std::string& text) {
  ASSIGN_OR_RETURN(const json value, ParseJson(text, path));
  std::vector<SequenceTokens> sequences;
  const bool is_several = value.is_array() && !value.empty() && !value[0].is_string();
  for (const json& one : is_several ? value : json::array({value})) {
    ASSIGN_OR_RETURN(SequenceTokens tokens, ParseSequence(path, one));
    sequences.push_back(std::move(tokens));
  }
  return sequences;
}

std::vector<SequenceTokens> ParseLines(const std::string& text) {
  SequenceTokens tokens;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    tokens.rows.push_back(ShownToken(UnmarkedToken(absl::StripSuffix(line, "\r"))));
  }
  return {tokens};
}

absl::Status Name(const std::string& path, const std::vector<std::string>& tokens,
                  const std::string& what, std::vector<std::string>& names) {
  if (tokens.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected ", names.size(), " tokens for the ", what, ", found ", tokens.size()));
  }
  names = tokens;
  return absl::OkStatus();
}

}  // namespace

absl::Status NameTokens(const std::string& path, AttentionPicture& picture) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  }
  std::vector<SequenceTokens> tokens = ParseLines(text);
  if (absl::EndsWith(path, ".json")) {
    ASSIGN_OR_RETURN(tokens, ParseJsonTokens(path, text));
  }
  if (tokens.size() != picture.sequences.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected tokens of ",
                                                   picture.sequences.size(), " sequences, found ",
                                                   tokens.size()));
  }
  for (size_t s = 0; s < tokens.size(); ++s) {
    for (LayerPicture& layer : picture.sequences[s].layers) {
      const bool is_self = tokens[s].keys.empty() && layer.rows.size() == layer.keys.size();
      RETURN_IF_ERROR(Name(path, tokens[s].rows, absl::StrCat("rows of ", layer.name), layer.rows));
      if (is_self || !tokens[s].keys.empty()) {
        RETURN_IF_ERROR(Name(path, is_self ? tokens[s].rows : tokens[s].keys,
                             absl::StrCat("keys of ", layer.name), layer.keys));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
