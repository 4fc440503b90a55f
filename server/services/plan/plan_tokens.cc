#include "server/services/plan/plan_tokens.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tokenizer/tokenizer.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/plan_run.h"
#include "server/services/plan/row_lengths.h"

namespace attention {
namespace {

// The maximum memory of cutting a text into tokens, for each of its bytes, as measured in
// tests/core/tokenizer/tokenizer_memory_test.cc.
constexpr int64_t kBytesToCutOne = 25;

// Returns an error of Model::ValidateTokens, whose text begins with the field, about a sequence.
absl::Status OfSequence(size_t index, const absl::Status& status) {
  const std::string text = absl::StrCat(std::string(status.message()), " in sequence ", index);
  const absl::Status error(status.code(), text);
  return text.starts_with("token_ids") ? AboutField({text.substr(0, text.find(':'))}, error)
                                       : error;
}

// Returns an error of text `index`, with `between` before its own text.
absl::Status OfText(size_t index, const char* between, const absl::Status& status) {
  return FieldError(status.code(), FieldPath{"text.texts"}, "[", index, "]", between,
                    std::string(status.message()));
}

absl::Status ExpectNoMemory(const char* found, const AttendPlan& plan) {
  if (MemoryUseOf(plan) == MemoryUse::kAlways) {
    return Wrong(FieldPath{"input"}, ": expected hidden_states for ", plan.RunName(),
                 ", which needs memory, found ", FieldPath{found});
  }
  return absl::OkStatus();
}

absl::Status ValidateSequence(const SequenceRows& rows, const AttendPlan& plan) {
  TokenSequence tokens;
  tokens.first_position = plan.cached_len;
  tokens.ids = std::span<const int32_t>(plan.ids).subspan(rows.first_row, rows.rows);
  if (!plan.type_ids.empty()) {
    tokens.type_ids = std::span<const int32_t>(plan.type_ids).subspan(rows.first_row, rows.rows);
  }
  RETURN_IF_ERROR(plan.model->ValidateTokens(tokens));
  if (plan.caches != nullptr && HasPadding(*plan.model, tokens.ids)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_ids.ids: expected none that is padding, which has no position in ",
                     plan.ModelName(), ", in a session, found ", *plan.model->padding_id()));
  }
  return absl::OkStatus();
}

// Plans sequences over plan.ids.
void PlanTokens(const std::vector<SequenceRows>& rows, AttendPlan& plan) {
  const int64_t num_tokens = std::ssize(plan.ids);
  PlanSelfAttention(rows, {.is_padded = false, .batch_size = 1, .seq_len = num_tokens}, plan);
  plan.is_token_request = true;
  plan.output_dtype = Dtype::kF32;
  plan.output_width = plan.model->info().d_model;
  plan.output_shape = {num_tokens, plan.output_width};
}

absl::Status CheckTextInput(const v1::TextInput& input, const AttendPlan& plan) {
  if (plan.model->tokenizer() == nullptr) {
    return Wrong(FieldPath{"input"}, ": expected token_ids or hidden_states for ", plan.RunName(),
                 ", which has no tokenizer, found text");
  }
  if (input.texts().empty()) {
    return Wrong(FieldPath{"text.texts"}, ": expected at least one text, found none");
  }
  return CheckNumSequences(input.texts_size(), {"text.texts"});
}

// Tokenizes texts within the terms of their caller.
class TextCutter {
 public:
  TextCutter(const AttendPlan& plan, const PlanTerms& terms)
      : tokenizer_(*plan.model->tokenizer()), terms_(terms), max_tokens_(MaxTokensOf(plan)) {}

  /// Refuses, by its length alone, a text that must become too many tokens; reserves memory for the
  /// others.
  absl::Status CheckLengths(const v1::TextInput& input) const {
    const int64_t max_bytes = tokenizer_.MaxTextBytes(max_tokens_);
    int64_t bytes = 0;
    for (int i = 0; i < input.texts_size(); ++i) {
      const int64_t text_bytes = std::ssize(input.texts(i));
      if (text_bytes > max_bytes) {
        return Wrong(FieldPath{"text.texts"}, "[", i, "]: expected at most ", max_bytes,
                     " bytes, since ", max_tokens_, " tokens cannot represent more, found ",
                     text_bytes);
      }
      bytes += text_bytes;
    }
    return bytes <= kSmallPlanBytes ? absl::OkStatus() : terms_.Reserve(MemoryToCut(bytes));
  }

  /// Tokenizes one text after the other, as long as their tokens stay within the limit of a
  /// request.
  absl::StatusOr<std::vector<TokenizedText>> Cut(const v1::TextInput& input) const {
    std::vector<TokenizedText> texts;
    int64_t tokens = 0;
    for (int i = 0; i < input.texts_size(); ++i) {
      ASSIGN_OR_RETURN(TokenizedText text, CutOne(input, i));
      tokens += std::ssize(text.ids);
      if (tokens > kMaxTokens) {
        return FieldError(absl::StatusCode::kResourceExhausted, FieldPath{"text"},
                          ": expected at most ", kMaxTokens, " tokens in a request, found ", tokens,
                          " in the first ", i + 1, " texts");
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }

 private:
  // Returns the most tokens that a sequence may have, or the request.
  static int64_t MaxTokensOf(const AttendPlan& plan) {
    const std::optional<int64_t> positions = plan.model->info().max_positions;
    return std::min(kMaxTokens, positions.has_value()
                                    ? std::max<int64_t>(1, *positions - plan.cached_len)
                                    : kMaxTokens);
  }

  // Returns the maximum memory of the tokens, and of cutting the texts.
  static int64_t MemoryToCut(int64_t bytes) {
    return std::min(bytes, kMaxTokens) * kTextTokenBytes + bytes * kBytesToCutOne;
  }

  absl::StatusOr<TokenizedText> CutOne(const v1::TextInput& input, int i) const {
    absl::Status wanted;
    absl::StatusOr<TokenizedText> text = tokenizer_.Encode(
        input.texts(i),
        {.add_special_tokens = !input.no_special_tokens(), .max_tokens = max_tokens_, .yield = [&] {
           wanted = terms_.Check();
           return wanted.ok();
         }});
    RETURN_IF_ERROR(wanted);
    return text.ok() ? std::move(text) : OfText(static_cast<size_t>(i), ": ", text.status());
  }

  const Tokenizer& tokenizer_;
  const PlanTerms& terms_;
  const int64_t max_tokens_;
};

}  // namespace

absl::Status PlanTokenIds(const v1::TokenIds& input, AttendPlan& plan) {
  RETURN_IF_ERROR(ExpectNoMemory("token_ids", plan));
  if (!input.type_ids().empty() && input.type_ids_size() != input.ids_size()) {
    return Wrong(FieldPath{"token_ids.type_ids"}, ": expected no value or one for each of the ",
                 input.ids_size(), " ids, found ", input.type_ids_size());
  }
  ASSIGN_OR_RETURN(
      const std::vector<SequenceRows> rows,
      ReadLengths(input.lengths(), {.seq_len = input.ids_size()}, {"token_ids.lengths"}));
  plan.ids.assign(input.ids().begin(), input.ids().end());
  plan.type_ids.assign(input.type_ids().begin(), input.type_ids().end());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (const absl::Status status = ValidateSequence(rows[i], plan); !status.ok()) {
      return OfSequence(i, status);
    }
  }
  PlanTokens(rows, plan);
  return absl::OkStatus();
}

absl::Status PlanText(const v1::TextInput& input, const PlanTerms& terms, AttendPlan& plan) {
  RETURN_IF_ERROR(ExpectNoMemory("text", plan));
  RETURN_IF_ERROR(CheckTextInput(input, plan));
  const TextCutter cutter(plan, terms);
  RETURN_IF_ERROR(cutter.CheckLengths(input));
  ASSIGN_OR_RETURN(std::vector<TokenizedText> texts, cutter.Cut(input));
  const bool has_type_ids = plan.model->info().num_token_types > 0;
  std::vector<SequenceRows> rows;
  for (const TokenizedText& text : texts) {
    rows.push_back({std::ssize(plan.ids), std::ssize(text.ids)});
    plan.ids.insert(plan.ids.end(), text.ids.begin(), text.ids.end());
    if (has_type_ids) {
      plan.type_ids.insert(plan.type_ids.end(), text.type_ids.begin(), text.type_ids.end());
    }
    if (const absl::Status status = ValidateSequence(rows.back(), plan); !status.ok()) {
      return OfText(rows.size() - 1, " as ", status);
    }
  }
  PlanTokens(rows, plan);
  plan.texts = std::make_shared<const std::vector<TokenizedText>>(std::move(texts));
  return absl::OkStatus();
}

bool HasPadding(const Model& model, std::span<const int32_t> ids) {
  const std::optional<int32_t> padding = model.padding_id();
  return padding.has_value() && std::find(ids.begin(), ids.end(), *padding) != ids.end();
}

}  // namespace attention
