// Requests for a model with token ids, or texts that become token ids.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/attend_plan.h"

namespace attention {
namespace {

absl::Status WithPlace(const absl::Status& status, const std::string& before,
                       const std::string& after) {
  return absl::Status(status.code(), absl::StrCat(before, std::string(status.message()), after));
}

absl::Status ExpectNoMemory(const char* found, const AttendPlan& plan) {
  if (MemoryUseOf(plan) == MemoryUse::kAlways) {
    return absl::InvalidArgumentError(absl::StrCat("input: expected hidden_states for ",
                                                   plan.RunName(), ", which needs memory, found ",
                                                   found));
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
  return plan.model->ValidateTokens(tokens);
}

// Sequences over plan.ids.
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
    return absl::InvalidArgumentError(
        absl::StrCat("input: expected token_ids or hidden_states for ", plan.RunName(),
                     ", which has no tokenizer, found text"));
  }
  if (input.texts().empty()) {
    return absl::InvalidArgumentError("text.texts: expected at least one text, found none");
  }
  return absl::OkStatus();
}

// Encodes texts one after the other as long as they stay within the bound of a request.
absl::StatusOr<std::vector<TokenizedText>> Tokenize(const v1::TextInput& input,
                                                    const Tokenizer& tokenizer) {
  std::vector<TokenizedText> texts;
  int64_t tokens = 0;
  for (int i = 0; i < input.texts_size(); ++i) {
    absl::StatusOr<TokenizedText> text =
        tokenizer.Encode(input.texts(i), !input.no_special_tokens());
    if (!text.ok()) {
      return WithPlace(text.status(), absl::StrCat("text.texts[", i, "]: "), "");
    }
    tokens += std::ssize(text->ids);
    if (tokens > kMaxTokens) {
      return absl::ResourceExhaustedError(absl::StrCat("text: expected at most ", kMaxTokens,
                                                       " tokens in a request, found ", tokens,
                                                       " in the first ", i + 1, " texts"));
    }
    texts.push_back(*std::move(text));
  }
  return texts;
}

}  // namespace

absl::Status PlanTokenIds(const v1::TokenIds& input, AttendPlan& plan) {
  RETURN_IF_ERROR(ExpectNoMemory("token_ids", plan));
  if (!input.type_ids().empty() && input.type_ids_size() != input.ids_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_ids.type_ids: expected no value or one for each of the ",
                     input.ids_size(), " ids, found ", input.type_ids_size()));
  }
  ASSIGN_OR_RETURN(
      const std::vector<SequenceRows> rows,
      ReadLengths(input.lengths(), {.seq_len = input.ids_size()}, "token_ids.lengths"));
  plan.ids.assign(input.ids().begin(), input.ids().end());
  plan.type_ids.assign(input.type_ids().begin(), input.type_ids().end());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (const absl::Status status = ValidateSequence(rows[i], plan); !status.ok()) {
      return WithPlace(status, "", absl::StrCat(" in sequence ", i));
    }
  }
  PlanTokens(rows, plan);
  return absl::OkStatus();
}

absl::Status PlanText(const v1::TextInput& input, AttendPlan& plan) {
  RETURN_IF_ERROR(ExpectNoMemory("text", plan));
  RETURN_IF_ERROR(CheckTextInput(input, plan));
  ASSIGN_OR_RETURN(std::vector<TokenizedText> texts, Tokenize(input, *plan.model->tokenizer()));
  const bool has_type_ids = plan.model->info().num_token_types > 0;
  std::vector<SequenceRows> rows;
  for (const TokenizedText& text : texts) {
    rows.push_back({std::ssize(plan.ids), std::ssize(text.ids)});
    plan.ids.insert(plan.ids.end(), text.ids.begin(), text.ids.end());
    if (has_type_ids) {
      plan.type_ids.insert(plan.type_ids.end(), text.type_ids.begin(), text.type_ids.end());
    }
    if (const absl::Status status = ValidateSequence(rows.back(), plan); !status.ok()) {
      return WithPlace(status, absl::StrCat("text.texts[", rows.size() - 1, "] as "), "");
    }
  }
  PlanTokens(rows, plan);
  plan.texts = std::make_shared<const std::vector<TokenizedText>>(std::move(texts));
  return absl::OkStatus();
}

}  // namespace attention
