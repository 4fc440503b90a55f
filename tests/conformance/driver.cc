// Makes the calls that run.py asks for, with the C++ client.
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

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

Tensor Rows() {
  Tensor rows(Dtype::kF32, {1, 2, 4});
  for (int i = 0; i < 8; ++i) {
    static_cast<float*>(rows.data())[i] = static_cast<float>(i + 1);
  }
  return rows;
}

std::string Hex(const Tensor& tensor) {
  return absl::BytesToHexString(
      absl::string_view(static_cast<const char*>(tensor.data()), tensor.size_bytes()));
}

absl::StatusOr<std::string> Attend(const Asked& asked, bool is_streamed) {
  const Tensor rows = Rows();
  AttendRequest request;
  request.model = "m";
  request.input = HiddenStatesInput{&rows};
  request.options.set_causal(true);
  ASSIGN_OR_RETURN(const AttendResult result,
                   is_streamed ? asked.client->AttendStream(request, {.assemble = true})
                               : asked.client->Attend(request));
  return Hex(result.output);
}

absl::StatusOr<std::string> Text(const Asked& asked) {
  AttendRequest request;
  request.model = "m";
  request.model_version = 3;
  request.input = TextInput{.texts = {"the cat"}, .no_special_tokens = true};
  request.model_output = v1::MEAN_POOLED;
  request.weights_choice.add_layers(1);
  request.weights_choice.add_heads(0);
  request.options.set_window(2);
  request.options.set_scale(0.5F);
  ASSIGN_OR_RETURN(const AttendResult result, asked.client->Attend(request));
  return Hex(result.output);
}

absl::StatusOr<std::string> Session(const Asked& asked) {
  v1::OpenSession open;
  open.set_model("m");
  const DecodeStreamOptions options = {.connection = asked.options.connection,
                                       .timeout = asked.options.timeout};
  ASSIGN_OR_RETURN(const auto stream, DecodeStream::Open(options, open));
  ASSIGN_OR_RETURN(const StepResult step, stream->Step({.input = TokenIdsInput{{7, 8}}}));
  RETURN_IF_ERROR(stream->Close());
  return Hex(step.answer.output);
}

absl::StatusOr<std::string> Call(const std::string& call, const Asked& asked) {
  if (call == "attend" || call == "attend_stream") {
    return Attend(asked, call == "attend_stream");
  }
  if (call == "text") {
    return Text(asked);
  }
  if (call == "session") {
    return Session(asked);
  }
  if (call == "ready") {
    RETURN_IF_ERROR(asked.client->WaitUntilReady("", asked.options.timeout));
  } else if (call == "get_model") {
    RETURN_IF_ERROR(asked.client->GetModel("m").status());
  } else {
    RETURN_IF_ERROR(asked.client->LoadModel("m").status());
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
    std::cout << absl::StatusCodeToString(answer.status().code()) << " " << answer.value_or("-")
              << std::endl;
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
