// One stream of Decode, through the generated stub.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/wire_tensors.h"

namespace attention {

/// All messages that answer one action, put together.
struct DecodeAnswer {
  uint64_t id = 0;
  int64_t sequence = 0;
  v1::DecodeResult result;
  std::string rows;  // the bytes of all row blocks
  std::vector<std::string> tokens;
  size_t largest_message = 0;
  int num_messages = 0;
  std::vector<std::string> parts;  // the bytes of each AttendStreamResponse
  bool has_joined_parts = false;

  absl::StatusCode code() const { return static_cast<absl::StatusCode>(result.code()); }
};

/// Calls block, with a generous deadline.
class DecodeStream {
 public:
  /// `token` is the caller's; empty: none.
  explicit DecodeStream(const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& token = "")
      : stub_(v1::AttentionService::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    if (!token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + token);
    }
    stream_ = stub_->Decode(&context_);
  }

  /// Sends an action for `sequence` and returns its id.
  uint64_t Send(v1::DecodeRequest request, int64_t sequence = 0) {
    EXPECT_TRUE(TrySend(std::move(request), sequence));
    return last_id_;
  }
  /// False when the stream has ended.
  bool TrySend(v1::DecodeRequest request, int64_t sequence = 0) {
    request.set_id(++last_id_);
    request.set_sequence(sequence);
    return stream_->Write(request);
  }

  /// Reads up to the end of some action's answer; null at the end of the stream.
  std::optional<DecodeAnswer> Read() {
    DecodeAnswer answer;
    for (v1::DecodeResponse message; stream_->Read(&message);) {
      answer.largest_message = std::max(answer.largest_message, message.ByteSizeLong());
      ++answer.num_messages;
      if (message.has_part()) {
        Take(message.part(), answer);
      }
      for (const v1::AttendStreamResponse& part : message.parts()) {
        answer.has_joined_parts = true;
        Take(part, answer);
      }
      if (message.has_result()) {
        answer.id = message.id();
        answer.sequence = message.sequence();
        answer.result = message.result();
        return answer;
      }
    }
    return std::nullopt;
  }

  DecodeAnswer Do(const v1::DecodeRequest& request, int64_t sequence = 0) {
    const uint64_t id = Send(request, sequence);
    const std::optional<DecodeAnswer> answer = Read();
    EXPECT_TRUE(answer.has_value()) << "the stream has ended";
    EXPECT_EQ(answer.value_or(DecodeAnswer()).id, id);
    return answer.value_or(DecodeAnswer());
  }
  /// The same of what must go well.
  DecodeAnswer Must(const v1::DecodeRequest& request, int64_t sequence = 0) {
    DecodeAnswer answer = Do(request, sequence);
    EXPECT_EQ(answer.result.code(), 0) << answer.result.message();
    return answer;
  }

  /// The id of the action that was sent last.
  uint64_t last_id() const { return last_id_; }
  void Cancel() { context_.TryCancel(); }
  /// The end of the requests, and the status of the call.
  grpc::Status End() {
    stream_->WritesDone();
    while (Read().has_value()) {
    }
    return stream_->Finish();
  }

 private:
  static void Take(const v1::AttendStreamResponse& part, DecodeAnswer& answer) {
    answer.parts.push_back(part.SerializeAsString());
    answer.rows += part.rows().output().data();
    for (const std::string& token : part.tokens().tokens().tokens()) {
      answer.tokens.push_back(token);
    }
  }

  std::unique_ptr<v1::AttentionService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::DecodeRequest, v1::DecodeResponse>> stream_;
  uint64_t last_id_ = 0;
};

inline v1::DecodeRequest OpenModel(const std::string& model, std::optional<int64_t> layer = {}) {
  v1::DecodeRequest request;
  request.mutable_open()->set_model(model);
  if (layer.has_value()) {
    request.mutable_open()->set_layer(*layer);
  }
  return request;
}

/// Opens a session that may be resumed within an hour.
inline v1::DecodeRequest OpenToResume(const std::string& model = "demo") {
  v1::DecodeRequest request = OpenModel(model);
  request.mutable_open()->set_resume_ttl_ms(3'600'000);
  return request;
}

inline v1::DecodeRequest Resuming(const std::string& token) {
  v1::DecodeRequest request;
  request.mutable_open()->set_resume_token(token);
  return request;
}

inline v1::DecodeRequest OpenHeads(int64_t num_heads, int64_t num_kv_heads, int64_t head_dim) {
  v1::DecodeRequest request;
  v1::AttentionHeads& heads = *request.mutable_open()->mutable_heads();
  heads.set_num_heads(num_heads);
  heads.set_num_kv_heads(num_kv_heads);
  heads.set_head_dim(head_dim);
  return request;
}

/// Rows [first, first + count) of `rows`.
inline v1::DecodeRequest RowsStep(const Tensor& rows, int64_t first, int64_t count) {
  v1::DecodeRequest request;
  v1::Tensor& wire = *request.mutable_step()->mutable_hidden_states()->mutable_tensor();
  Shape shape = rows.shape();
  const size_t row_bytes = rows.size_bytes() / shape[0];
  shape[0] = count;
  WriteTensorHeader(rows.dtype(), shape, wire);
  wire.set_data(static_cast<const char*>(rows.data()) + first * row_bytes, count * row_bytes);
  return request;
}

inline v1::DecodeRequest TokensStep(const std::vector<int32_t>& ids) {
  v1::DecodeRequest request;
  request.mutable_step()->mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  return request;
}

inline v1::DecodeRequest ForkTo(int64_t number) {
  v1::DecodeRequest request;
  request.mutable_fork()->set_new_sequence(number);
  return request;
}

inline v1::DecodeRequest TruncateTo(int64_t length) {
  v1::DecodeRequest request;
  request.mutable_truncate()->set_length(length);
  return request;
}

inline v1::DecodeRequest Release() {
  v1::DecodeRequest request;
  request.mutable_release();
  return request;
}

}  // namespace attention
