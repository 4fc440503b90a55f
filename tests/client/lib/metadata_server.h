// A small server that remembers what comes with each call.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "client/lib/attention_client.h"
#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "tests/client/lib/loopback_server.h"

namespace attention {

/// Answers nothing of use, and remembers what came with each call.
class MetadataServer : public v1::AttentionService::Service {
 public:
  using Metadata = std::multimap<std::string, std::string>;

  explicit MetadataServer(const std::shared_ptr<grpc::ServerCredentials>& credentials =
                              grpc::InsecureServerCredentials(),
                          const std::string& host = "127.0.0.1")
      : server_(*this, credentials, host) {}

  const std::string& address() const { return server_.address(); }
  /// Of the last call that came to `method`.
  Metadata MetadataOf(const std::string& method) const {
    MutexLock lock(mutex_);
    const auto found = metadata_.find(method);
    return found == metadata_.end() ? Metadata() : found->second;
  }
  /// Common name of the last client that showed a certificate.
  std::string client() const {
    MutexLock lock(mutex_);
    return client_;
  }

  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest*,
                        v1::Model*) override {
    return Remember("GetModel", *context);
  }
  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest*,
                      v1::AttendResponse*) override {
    return Remember("Attend", *context);
  }
  grpc::Status AttendStream(grpc::ServerContext* context, const v1::AttendRequest*,
                            grpc::ServerWriter<v1::AttendStreamResponse>*) override {
    return Remember("AttendStream", *context);
  }
  grpc::Status Decode(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::DecodeResponse, v1::DecodeRequest>*) override {
    Remember("Decode", *context);
    return {grpc::StatusCode::UNIMPLEMENTED, "no sessions"};
  }

 private:
  grpc::Status Remember(const std::string& method, const grpc::ServerContext& context) {
    MutexLock lock(mutex_);
    Metadata& metadata = metadata_[method];
    metadata.clear();
    for (const auto& [name, value] : context.client_metadata()) {
      metadata.emplace(std::string(name.data(), name.size()),
                       std::string(value.data(), value.size()));
    }
    for (const grpc::string_ref& name :
         context.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      client_ = std::string(name.data(), name.size());
    }
    return grpc::Status::OK;
  }

  mutable Mutex mutex_;
  std::map<std::string, Metadata> metadata_ ABSL_GUARDED_BY(mutex_);
  std::string client_ ABSL_GUARDED_BY(mutex_);
  LoopbackServer server_;
};

/// One call, of GetModel, made once.
inline absl::Status Ask(ConnectionOptions connection) {
  connection.retries = false;
  const auto client =
      AttentionClient::Connect({.connection = connection, .timeout = absl::Minutes(2)});
  return client.ok() ? (*client)->GetModel("demo").status() : client.status();
}

}  // namespace attention
