// Makes the calls that run.py asks for, with the C++ client.
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "client/lib/attention_client.h"
#include "client/lib/decode_stream.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/tensor.h"

namespace attention {
namespace {

struct Asked {
  ClientOptions options;
  std::unique_ptr<AttentionClient> client;
};

/// Returns a tensor whose elements count from 1.
Tensor Counted(const Shape& shape) {
  Tensor rows(Dtype::kF32, shape);
  for (int64_t i = 0; i < rows.num_elements(); ++i) {
    rows.as<float>()[i] = static_cast<float>(i + 1);
  }
  return rows;
}

v1::AttentionOptions AllScores() {
  v1::AttentionOptions options;
  options.set_return_weights(true);
  options.set_return_log_sum_exp(true);
  options.set_weights_top_k(1);
  return options;
}

template <typename T>
std::string Hex(const std::vector<T>& values) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

std::string Hex(const Tensor& tensor) {
  return absl::BytesToHexString(
      absl::string_view(static_cast<const char*>(tensor.data()), tensor.size_bytes()));
}

std::string Hex(const AttendResult& result) {
  std::string hex = Hex(result.output);
  for (const auto* tables : {&result.weights, &result.log_sum_exp}) {
    for (const Tensor& table : *tables) {
      hex += Hex(table);
    }
  }
  for (const LargestWeights& top : result.top_weights) {
    hex += Hex(top.weights) + Hex(top.keys);
  }
  for (const LayerWeights& layer : result.layer_weights) {
    hex += Hex(layer.weights);
  }
  return hex;
}

absl::StatusOr<std::string> Attend(const Asked& asked, const std::string& call) {
  const Tensor states = Counted({1, 2, 4}), tall(Dtype::kF32, {int64_t{1} << 31, 0}),
               heads = Counted({2, 2, 1});
  AttendRequest request;
  request.model = "m";
  if (call.starts_with("attend")) {
    request.input = HiddenStatesInput{&states};
    request.options.set_causal(true);
  } else if (call.starts_with("text")) {
    request.model_version = 3;
    request.input = TextInput{.texts = {"the cat"}, .no_special_tokens = true};
    request.model_output = v1::MEAN_POOLED;
    request.weights_choice.add_layers(1);
    request.weights_choice.add_heads(0);
    request.options.set_window(2);
    request.options.set_scale(0.5F);
  } else if (call.starts_with("huge")) {
    request.input = HiddenStatesInput{&tall};
    request.model_output = v1::LOGITS;
  } else {
    request.model.clear();
    request.input = QueryKeyValueInput{&heads, &heads, &heads};
    request.options = AllScores();
  }
  if (call.ends_with("rows")) {
    std::string rows;
    const auto on_rows = [&rows](const RowBlock& block) {
      rows += Hex(block.rows);
      return true;
    };
    RETURN_IF_ERROR(asked.client->AttendStream(request, {.on_rows = on_rows}).status());
    return rows;
  }
  ASSIGN_OR_RETURN(const AttendResult result,
                   call == "huge" || call.ends_with("_stream")
                       ? asked.client->AttendStream(request, {.assemble = true})
                       : asked.client->Attend(request));
  return Hex(result);
}

absl::StatusOr<std::string> Session(const Asked& asked, const std::string& call) {
  const Tensor heads = Counted({2, 2, 1});
  v1::OpenSession open;
  StepRequest step{.input = TokenIdsInput{{7, 8}}};
  if (call == "session_scores") {
    open.mutable_heads()->set_num_heads(2);
    open.mutable_heads()->set_head_dim(1);
    *open.mutable_options() = AllScores();
    step.input = QueryKeyValueInput{&heads, &heads, &heads};
  } else {
    open.set_model("m");
  }
  const DecodeStreamOptions options = {.connection = asked.options.connection,
                                       .timeout = asked.options.timeout};
  ASSIGN_OR_RETURN(const auto stream, DecodeStream::Open(options, open));
  if (call != "branches") {
    ASSIGN_OR_RETURN(const StepResult result, stream->Step(step));
    RETURN_IF_ERROR(stream->Close());
    return Hex(result.answer);
  }
  RETURN_IF_ERROR(stream->Fork(0, 1).status());
  step.top_logits = 2;
  ASSIGN_OR_RETURN(const StepResult top, stream->Step(step, 1));
  ASSIGN_OR_RETURN(const StepResult quiet,
                   stream->Step({.input = step.input, .no_output = true}, 1));
  ASSIGN_OR_RETURN(const SessionState cut, stream->Truncate(1, 2));
  ASSIGN_OR_RETURN(const SessionState released, stream->Release(1));
  RETURN_IF_ERROR(stream->Close());
  const auto& [ids, logits] = std::pair(top.top_logits->ids(), top.top_logits->logits());
  const auto sequences = static_cast<int32_t>(released.usage.sequences());
  return Hex(std::vector<int32_t>(ids.begin(), ids.end())) +
         Hex(std::vector<float>(logits.begin(), logits.end())) +
         Hex(std::vector{static_cast<int32_t>(quiet.session.length),
                         static_cast<int32_t>(cut.length), sequences});
}

absl::StatusOr<std::string> Call(const std::string& call, const Asked& asked) {
  if (call == "branches" || call.starts_with("session")) {
    return Session(asked, call);
  }
  if (call == "ready") {
    RETURN_IF_ERROR(asked.client->WaitUntilReady("", asked.options.timeout));
  } else if (call == "get_model") {
    RETURN_IF_ERROR(asked.client->GetModel("m").status());
  } else if (call == "load_model") {
    RETURN_IF_ERROR(asked.client->LoadModel("m").status());
  } else {
    return Attend(asked, call);
  }
  return "-";
}

std::string Open(std::istream& words, Asked& asked) {
  double seconds = 0;
  std::string token;
  words >> asked.options.connection.server >> seconds >> asked.options.connection.retries >> token;
  asked.options.timeout = absl::Seconds(seconds);
  asked.options.connection.token = token == "-" ? "" : token;
  absl::StatusOr<std::unique_ptr<AttentionClient>> client = AttentionClient::Connect(asked.options);
  if (client.ok()) {
    asked.client = *std::move(client);
    return "OK";
  }
  return absl::IsUnavailable(client.status()) ? "UNAVAILABLE" : "REFUSED";
}

void Answer(const std::string& line, Asked& asked) {
  std::istringstream words(line);
  std::string call;
  words >> call;
  if (call == "open") {
    std::cout << Open(words, asked) << std::endl;
  } else if (call == "close") {
    asked.client.reset();
    std::cout << "OK" << std::endl;
  } else {
    const absl::StatusOr<std::string> answer = Call(call, asked);
    std::cout << absl::StatusCodeToString(answer.status().code()) << " "
              << answer.value_or(std::string(answer.status().message())) << std::endl;
  }
}

}  // namespace
}  // namespace attention

int main() {
  attention::Asked asked;
  for (std::string line; std::getline(std::cin, line);) {
    attention::Answer(line, asked);
  }
  return 0;
}
