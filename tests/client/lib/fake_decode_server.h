// A server of sessions whose answers can be told in advance, and which can misbehave.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "tests/client/lib/loopback_server.h"

namespace attention {

/// Takes hidden states [n, 1] in FP32: the output row of token i of a sequence is its value plus
/// 100 i; two blocks when there is more than one row. `open.model` says how it behaves:
///   fake     as it should
///   silent   answers open, and then nothing
///   stray    answers steps with the id of another action
///   short    leaves out the last row of a step
///   breaks   ends the call after open, UNAVAILABLE
///   ends     ends the call after open, OK
///   ids      answers top_logits with ids alone
///   refuses  refuses every step for 1.5 s, RESOURCE_EXHAUSTED
///   pairs    has two sessions at a time: others are opened when one of them ends
class FakeDecodeServer : public v1::AttentionService::Service {
 public:
  const std::string& address() const { return server_.address(); }
  int64_t num_sessions() const { return num_sessions_.load(); }

  using Stream = grpc::ServerReaderWriter<v1::DecodeResponse, v1::DecodeRequest>;

  /// One that cannot be reproduced.
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*, v1::Model*) override {
    return grpc::Status::OK;
  }

  grpc::Status Decode(grpc::ServerContext* context, Stream* stream) override {
    ++num_sessions_;
    Session session;
    for (v1::DecodeRequest request; stream->Read(&request);) {
      if (request.has_open()) {
        session.mode = request.open().model();
        session.lengths[0] = 0;
        if (session.mode == "pairs") {
          pairs_.acquire();
        }
      }
      if (session.mode == "silent" && !request.has_open()) {
        continue;
      }
      Answer(request, session, *stream);
      if (session.mode == "breaks") {
        return {grpc::StatusCode::UNAVAILABLE, "going away"};
      }
      if (session.mode == "ends") {
        return grpc::Status::OK;
      }
    }
    if (session.mode == "pairs") {
      pairs_.release();
    }
    return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
  }

 private:
  struct Session {
    std::string mode;
    std::map<int64_t, int64_t> lengths;  // of each sequence
  };

  static void Answer(const v1::DecodeRequest& request, Session& session, Stream& stream) {
    v1::DecodeResponse response;
    const bool is_stray = session.mode == "stray" && request.has_step();
    response.set_id(request.id() + (is_stray ? 1 : 0));
    response.set_sequence(request.sequence());
    v1::DecodeResult& result = *response.mutable_result();
    const auto found = session.lengths.find(request.sequence());
    if (found == session.lengths.end()) {
      result.set_code(grpc::StatusCode::NOT_FOUND);
      result.set_message(absl::StrCat("sequence: found no ", request.sequence()));
    } else if (request.has_step() && session.mode == "refuses") {
      result.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
      result.set_message("cache: full");
      result.set_retry_after_ms(1500);
    } else if (request.has_step()) {
      SendRows(request, session, found->second, stream);
      found->second += request.step().hidden_states().tensor().shape(0);
      result.mutable_summary()->set_compute_ns(5);
      result.mutable_summary()->set_queue_ns(7);
      result.mutable_summary()->set_batch_requests(2);
      if (request.step().top_logits() > 0) {
        result.mutable_top_logits()->add_ids(3);
        if (session.mode != "ids") {
          result.mutable_top_logits()->add_logits(0.5f);
        }
      }
    } else if (request.has_fork()) {
      session.lengths[request.fork().new_sequence()] = found->second;
    } else if (request.has_truncate()) {
      found->second = request.truncate().length();
    } else if (request.has_release()) {
      session.lengths.erase(found);
    }
    const auto after = session.lengths.find(request.sequence());
    result.set_length(after == session.lengths.end() ? 0 : after->second);
    result.mutable_usage()->set_sequences(static_cast<int64_t>(session.lengths.size()));
    stream.Write(response);
  }

  static void SendRows(const v1::DecodeRequest& request, const Session& session, int64_t length,
                       Stream& stream) {
    if (request.step().no_output() || request.step().top_logits() > 0) {
      return;
    }
    const v1::Tensor& input = request.step().hidden_states().tensor();
    const int64_t rows = input.shape(0) - (session.mode == "short" ? 1 : 0);
    const int64_t first_block = rows > 1 ? 1 : rows;
    for (int64_t row = 0; row < rows; row += row == 0 ? first_block : rows - first_block) {
      v1::DecodeResponse response;
      response.set_id(request.id() + (session.mode == "stray" ? 1 : 0));
      response.set_sequence(request.sequence());
      v1::RowBlock& block = *response.mutable_part()->mutable_rows();
      block.set_first_row(row);
      v1::Tensor& output = *block.mutable_output();
      const int64_t count = row == 0 ? first_block : rows - first_block;
      output.set_dtype(v1::FP32);
      output.add_shape(count);
      output.add_shape(1);
      std::vector<float> values(count);
      std::memcpy(values.data(), input.data().data() + row * sizeof(float), count * sizeof(float));
      for (int64_t i = 0; i < count; ++i) {
        values[i] += 100.0f * static_cast<float>(length + row + i);
      }
      output.set_data(values.data(), count * sizeof(float));
      stream.Write(response);
    }
  }

  std::counting_semaphore<> pairs_{2};
  std::atomic<int64_t> num_sessions_{0};
  LoopbackServer server_{*this};
};

}  // namespace attention
