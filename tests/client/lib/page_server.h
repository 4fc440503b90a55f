// A server of sessions of attention without a model that does what a test says, and counts what it
// is asked.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "tests/client/lib/loopback_server.h"

namespace attention {

/// Answers steps with zeros: output [n, H, width] and log-sum-exp [n] of each head. It forgets the
/// keys. Before each action it calls `rule`: OK lets the action succeed, UNAVAILABLE ends the call,
/// and any other status is the action's own.
class PageServer : public v1::AttentionService::Service {
 public:
  using Rule = std::function<grpc::Status(const v1::DecodeRequest&)>;
  using Stream = grpc::ServerReaderWriter<v1::DecodeResponse, v1::DecodeRequest>;

  explicit PageServer(Rule rule = nullptr, v1::DataType output_dtype = v1::FP32)
      : rule_(std::move(rule)), output_dtype_(output_dtype) {}

  const std::string& address() const { return server_.address(); }
  /// The sequences that exist, which begin with sequence 0.
  std::set<int64_t> sequences() const {
    MutexLock lock(mutex_);
    return sequences_;
  }
  /// The rows of query and of key of each step, in the order of arrival.
  std::vector<std::pair<int64_t, int64_t>> step_rows() const {
    MutexLock lock(mutex_);
    return step_rows_;
  }

  grpc::Status Decode(grpc::ServerContext*, Stream* stream) override {
    int64_t num_heads = 0, width = 0;
    for (v1::DecodeRequest request; stream->Read(&request);) {
      if (request.has_open()) {
        num_heads = request.open().heads().num_heads();
        width = request.open().heads().head_dim();
      }
      const grpc::Status status = rule_ != nullptr ? rule_(request) : grpc::Status::OK;
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        return status;
      }
      v1::DecodeResponse response;
      response.set_id(request.id());
      response.mutable_result()->set_code(status.error_code());
      response.mutable_result()->set_message(status.error_message());
      if (status.ok()) {
        response.mutable_result()->mutable_usage();
        response.mutable_result()->mutable_summary();
        Count(request);
        SendRows(request, num_heads, width, output_dtype_, *stream);
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

 private:
  void Count(const v1::DecodeRequest& request) {
    MutexLock lock(mutex_);
    if (request.has_open()) {
      sequences_ = {0};
    } else if (request.has_fork()) {
      sequences_.insert(request.fork().new_sequence());
    } else if (request.has_release()) {
      sequences_.erase(request.sequence());
    } else if (request.has_step()) {
      const v1::QueryKeyValue& input = request.step().query_key_value();
      step_rows_.emplace_back(input.query().shape(0), input.key().shape(0));
    }
  }

  static void SendRows(const v1::DecodeRequest& request, int64_t num_heads, int64_t width,
                       v1::DataType output_dtype, Stream& stream) {
    const int64_t rows = request.step().query_key_value().query().shape_size() > 0
                             ? request.step().query_key_value().query().shape(0)
                             : 0;
    if (rows == 0) {
      return;
    }
    const auto zeros = [](v1::DataType dtype, std::initializer_list<int64_t> shape,
                          v1::Tensor& tensor) {
      int64_t bytes = dtype == v1::FP32 ? 4 : 2;
      tensor.set_dtype(dtype);
      for (const int64_t extent : shape) {
        tensor.add_shape(extent);
        bytes *= extent;
      }
      tensor.set_data(std::string(bytes, '\0'));
    };
    v1::DecodeResponse response;
    response.set_id(request.id());
    zeros(output_dtype, {rows, num_heads, width},
          *response.mutable_part()->mutable_rows()->mutable_output());
    stream.Write(response);
    for (int64_t head = 0; head < num_heads; ++head) {
      v1::LogSumExpBlock& block = *response.mutable_part()->mutable_log_sum_exp();
      block.set_head(head);
      block.clear_log_sum_exp();
      zeros(v1::FP32, {rows}, *block.mutable_log_sum_exp());
      stream.Write(response);
    }
  }

  const Rule rule_;
  const v1::DataType output_dtype_;
  mutable Mutex mutex_;
  std::set<int64_t> sequences_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, int64_t>> step_rows_ ABSL_GUARDED_BY(mutex_);
  LoopbackServer server_{*this};
};

}  // namespace attention
