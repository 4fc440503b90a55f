// A small server that fails as it is told.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "tests/client/lib/loopback_server.h"

namespace attention {

/// How to answer one call.
struct Answer {
  grpc::Status status = grpc::Status::OK;
  /// grpc-retry-pushback-ms of an error; empty: none.
  std::string pushback_ms = {};
  /// Of a stream: one message comes before the error.
  bool begins = false;
};

/// Answers GetModel, AttendStream, Decode and LoadModel; calls that come after the last of
/// `answers` succeed.
class ScriptedServer : public v1::AttentionService::Service {
 public:
  explicit ScriptedServer(std::vector<Answer> answers = {})
      : answers_(answers.begin(), answers.end()) {}

  const std::string& address() const { return server_.address(); }
  /// When each call came.
  std::vector<absl::Time> calls() const {
    MutexLock lock(mutex_);
    return calls_;
  }

  /// How many calls came over each connection.
  std::map<std::string, int> peers() const {
    MutexLock lock(mutex_);
    return peers_;
  }

  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest*,
                        v1::Model*) override {
    return Next(*context).status;
  }
  grpc::Status LoadModel(grpc::ServerContext* context, const v1::LoadModelRequest*,
                         v1::ModelStates*) override {
    return Next(*context).status;
  }
  grpc::Status AttendStream(grpc::ServerContext* context, const v1::AttendRequest* request,
                            grpc::ServerWriter<v1::AttendStreamResponse>* writer) override {
    const Answer answer = Next(*context);
    if (answer.status.ok()) {  // the rows of one sequence as they came
      v1::AttendStreamResponse message;
      v1::Tensor& rows = *message.mutable_rows()->mutable_output();
      rows = request->hidden_states().tensor();
      rows.mutable_shape()->erase(rows.shape().begin());
      writer->Write(message);
    }
    if (answer.begins || answer.status.ok()) {
      v1::AttendStreamResponse message;
      message.mutable_summary();
      writer->Write(message);
    }
    return answer.status;
  }
  grpc::Status Decode(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::DecodeResponse, v1::DecodeRequest>*) override {
    return Next(*context).status;
  }

 private:
  Answer Next(grpc::ServerContext& context) {
    MutexLock lock(mutex_);
    calls_.push_back(absl::Now());
    ++peers_[context.peer()];
    if (answers_.empty()) {
      return {};
    }
    const Answer answer = std::move(answers_.front());
    answers_.pop_front();
    if (!answer.pushback_ms.empty()) {
      context.AddTrailingMetadata("grpc-retry-pushback-ms", answer.pushback_ms);
    }
    return answer;
  }

  mutable Mutex mutex_;
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Time> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> peers_ ABSL_GUARDED_BY(mutex_);
  LoopbackServer server_{*this};
};

}  // namespace attention
