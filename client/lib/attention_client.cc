#include "client/lib/attention_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/lib/answer_codec.h"
#include "client/lib/answer_shape.h"
#include "client/lib/blocking_call.h"
#include "client/lib/channel.h"
#include "client/lib/malformed_answer.h"
#include "client/lib/open_inference_codec.h"
#include "client/lib/request_codec.h"
#include "client/lib/retry_policy.h"
#include "client/lib/streamed_answer.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/presented_status.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"
#include "proto/codec/envelope.h"
#include "proto/grpc/health/v1/health.pb.h"

namespace attention {

namespace {

/// The time between two questions whether a server is ready.
constexpr absl::Duration kReadyPause = absl::Milliseconds(100);

/// Adds to an error the address that was tried, or the flag to change.
absl::Status Explain(const absl::Status& status, const Attempts& attempts,
                     const ClientOptions& options, absl::Duration call_timeout) {
  const std::string text(status.message());
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    const std::string server = absl::StrCat("server ", options.connection.server, ": ");
    const std::string timeout = absl::FormatDuration(call_timeout);
    return WithText(status,
                    attempts.timed_out()
                        ? absl::StrCat(server, "no answer within ", timeout, ": ", text)
                        : absl::StrCat(server, "refused with a timeout of ", timeout, ": ", text));
  }
  if (absl::StrContains(text, "larger than max")) {
    return WithText(status,
                    absl::StrCat(text, " (the server's flag --max-message-bytes sets the limit)"));
  }
  if (absl::StrContains(text, "metadata size exceeds")) {
    return WithText(
        status,
        absl::StrCat(
            text,
            " (of metadata that is sent, the server's flag --max-header-bytes sets the limit)"));
  }
  return WithServer(status, options.connection);
}

template <typename Request>
Request RequestFor(const std::string& model, std::optional<int64_t> version) {
  Request request;
  request.set_model(model);
  if (version.has_value()) {
    request.set_version(*version);
  }
  return request;
}

}  // namespace

struct AttentionClient::State {
  State(const ClientOptions& client_options, const std::shared_ptr<grpc::Channel>& own_channel)
      : options(client_options), channel(own_channel), stub(channel) {}

  absl::StatusOr<grpc::ByteBuffer> Call(const std::string& method,
                                        const grpc::ByteBuffer& request) {
    return Call(method, request, options.timeout);
  }

  absl::StatusOr<grpc::ByteBuffer> Call(const std::string& method, const grpc::ByteBuffer& request,
                                        absl::Duration timeout) {
    Attempts attempts(method, options.connection.retries, timeout, budget);
    for (;;) {
      absl::StatusOr<grpc::ByteBuffer> reply =
          CallUnary(stub, method, request, attempts.remaining());
      if (reply.ok()) {
        budget.Count(/*may_be_repeated=*/false);
        return reply;
      }
      if (!attempts.WaitAfter(reply.status(), *channel)) {
        return Explain(reply.status(), attempts, options, timeout);
      }
    }
  }

  /// Makes `stream` one whose first message is in `first`.
  absl::Status StartStream(Attempts& attempts, const grpc::ByteBuffer& request,
                           std::optional<BlockingStream>& stream, grpc::ByteBuffer& first) {
    for (;;) {
      stream.emplace(stub, kAttendStreamMethod, attempts.remaining());
      stream->WriteLast(request);
      if (stream->Read(first)) {
        budget.Count(/*may_be_repeated=*/false);
        return absl::OkStatus();
      }
      const absl::Status status = stream->Finish();
      if (status.ok()) {
        return NotSent("summary");
      }
      if (!attempts.WaitAfter(status, *channel)) {
        return Explain(status, attempts, options, options.timeout);
      }
    }
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> CallTyped(const std::string& method, const Request& request) {
    return CallTyped<Reply>(method, request, options.timeout);
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> CallTyped(const std::string& method, const Request& request,
                                  absl::Duration timeout) {
    ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes,
                     Call(method, Encoder().Encode(request), timeout));
    absl::StatusOr<Received<Reply>> received = Decode<Reply>(bytes);
    return received.ok() ? absl::StatusOr<Reply>(std::move(received->message))
                         : MalformedAnswer(std::string(received.status().message()));
  }

  template <typename Request>
  absl::StatusOr<std::vector<v1::ModelState>> CallForStates(const std::string& method,
                                                            const Request& request) {
    ASSIGN_OR_RETURN(const v1::ModelStates reply,
                     CallTyped<v1::ModelStates>(
                         absl::StrCat("/attention.v1.AttentionService/", method), request));
    return std::vector<v1::ModelState>(reply.states().begin(), reply.states().end());
  }

  absl::Status CheckHealth(const std::string& service, absl::Duration timeout) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    ASSIGN_OR_RETURN(const grpc::health::v1::HealthCheckResponse reply,
                     CallTyped<grpc::health::v1::HealthCheckResponse>(
                         "/grpc.health.v1.Health/Check", request, timeout));
    if (reply.status() == grpc::health::v1::HealthCheckResponse::SERVING) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("server ", options.connection.server, ": service \"", service, "\" is ",
                     grpc::health::v1::HealthCheckResponse::ServingStatus_Name(reply.status())));
  }

  const ClientOptions options;
  const std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  RetryBudget budget;
};

AttentionClient::AttentionClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
AttentionClient::~AttentionClient() = default;

absl::StatusOr<std::unique_ptr<AttentionClient>> AttentionClient::Connect(
    const ClientOptions& options) {
  RETURN_IF_ERROR(CheckTimeout(options.timeout, "timeout"));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options.connection));
  return std::unique_ptr<AttentionClient>(
      new AttentionClient(std::make_unique<State>(options, channel)));
}

absl::StatusOr<AttendResult> AttentionClient::Attend(const AttendRequest& request) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes, EncodeRequest(request));
  ASSIGN_OR_RETURN(const grpc::ByteBuffer reply, state_->Call(kAttendMethod, bytes));
  ASSIGN_OR_RETURN(AttendResult result, DecodeAnswer(reply));
  RETURN_IF_ERROR(CheckAnswer(request, result));
  result.client_total = absl::Now() - start;
  return result;
}

absl::StatusOr<AttendResult> AttentionClient::AttendStream(const AttendRequest& request,
                                                           const StreamSink& sink) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes, EncodeRequest(request));
  StreamedAnswer answer(request, sink);
  std::optional<BlockingStream> stream;
  grpc::ByteBuffer received;
  Attempts attempts(kAttendStreamMethod, state_->options.connection.retries,
                    state_->options.timeout, state_->budget);
  RETURN_IF_ERROR(state_->StartStream(attempts, bytes, stream, received));
  do {
    RETURN_IF_ERROR(answer.Take(received));
  } while (stream->Read(received));
  if (const absl::Status status = stream->Finish(); !status.ok()) {
    return Explain(status, attempts, state_->options, state_->options.timeout);
  }
  ASSIGN_OR_RETURN(AttendResult result, answer.Finish());
  result.client_total = absl::Now() - start;
  return result;
}

absl::StatusOr<AttendResult> AttentionClient::Infer(const AttendRequest& request) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const grpc::ByteBuffer bytes, EncodeInferRequest(request));
  ASSIGN_OR_RETURN(const grpc::ByteBuffer reply, state_->Call(kModelInferMethod, bytes));
  ASSIGN_OR_RETURN(AttendResult result, DecodeInferAnswer(reply));
  result.client_total = absl::Now() - start;
  return result;
}

absl::StatusOr<std::vector<v1::Model>> AttentionClient::ListModels() {
  ASSIGN_OR_RETURN(const v1::ListModelsResponse reply,
                   state_->CallTyped<v1::ListModelsResponse>(
                       "/attention.v1.AttentionService/ListModels", v1::ListModelsRequest()));
  return std::vector<v1::Model>(reply.models().begin(), reply.models().end());
}

absl::StatusOr<v1::Model> AttentionClient::GetModel(const std::string& name,
                                                    std::optional<int64_t> version) {
  return state_->CallTyped<v1::Model>("/attention.v1.AttentionService/GetModel",
                                      RequestFor<v1::GetModelRequest>(name, version));
}

absl::StatusOr<std::vector<v1::ModelState>> AttentionClient::ListModelStates() {
  return state_->CallForStates("ListModelStates", v1::ListModelStatesRequest());
}

absl::StatusOr<std::vector<v1::ModelState>> AttentionClient::LoadModel(
    const std::string& name, std::optional<int64_t> version) {
  return state_->CallForStates("LoadModel", RequestFor<v1::LoadModelRequest>(name, version));
}

absl::StatusOr<std::vector<v1::ModelState>> AttentionClient::UnloadModel(
    const std::string& name, std::optional<int64_t> version) {
  return state_->CallForStates("UnloadModel", RequestFor<v1::UnloadModelRequest>(name, version));
}

absl::StatusOr<std::vector<v1::ModelState>> AttentionClient::ReloadModels() {
  return state_->CallForStates("ReloadModels", v1::ReloadModelsRequest());
}

absl::StatusOr<v1::VerifyModelResponse> AttentionClient::VerifyModel(
    const std::string& name, std::optional<int64_t> version) {
  return state_->CallTyped<v1::VerifyModelResponse>(
      "/attention.v1.AttentionService/VerifyModel",
      RequestFor<v1::VerifyModelRequest>(name, version));
}

absl::StatusOr<v1::ServerStatistics> AttentionClient::GetStatistics() {
  return state_->CallTyped<v1::ServerStatistics>("/attention.v1.AttentionService/GetStatistics",
                                                 v1::GetStatisticsRequest());
}

absl::StatusOr<v1::Logging> AttentionClient::SetLogging(const v1::SetLoggingRequest& request) {
  return state_->CallTyped<v1::Logging>("/attention.v1.AttentionService/SetLogging", request);
}

absl::Status AttentionClient::CheckHealth(const std::string& service) {
  return state_->CheckHealth(service, state_->options.timeout);
}

absl::Status AttentionClient::WaitUntilReady(const std::string& service, absl::Duration timeout) {
  RETURN_IF_ERROR(CheckTimeout(timeout, "timeout"));
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const absl::Duration remaining = std::max(deadline - absl::Now(), absl::Milliseconds(1));
    const absl::Status status =
        state_->CheckHealth(service, std::min(remaining, state_->options.timeout));
    if (!absl::IsUnavailable(status) && !absl::IsNotFound(status) &&
        !absl::IsDeadlineExceeded(status)) {
      return status;
    }
    if (absl::Now() + kReadyPause > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "not ready within ", absl::FormatDuration(timeout), ": ", std::string(status.message())));
    }
    absl::SleepFor(kReadyPause);
  }
}

absl::Status WatchHealth(const ClientOptions& options, const std::string& service, absl::Time until,
                         const OnHealth& on_health) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options.connection));
  grpc::GenericStub stub(channel);
  BlockingStream stream(stub, "/grpc.health.v1.Health/Watch", until - absl::Now());
  stream.WriteLast(Encoder().Encode(request));
  grpc::ByteBuffer bytes;
  while (stream.Read(bytes)) {
    const auto received = Decode<grpc::health::v1::HealthCheckResponse>(bytes);
    if (!received.ok()) {
      return MalformedAnswer(std::string(received.status().message()));
    }
    if (!on_health(received->message.status())) {
      return absl::OkStatus();
    }
  }
  const absl::Status status = stream.Finish();
  return Prefixed(absl::StrCat("server ", options.connection.server),
                  status.ok() ? absl::UnavailableError("the watch has ended") : status);
}

}  // namespace attention
