// A server with certificates and tokens, and channels to it.
#pragma once

#include <grpcpp/create_channel.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "proto/codec/status.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {

/// A file of tests/data/tls.
inline std::string TlsFile(const std::string& name) { return ATTEND_TEST_DATA "/tls/" + name; }

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What a client shows and trusts; `client` names a certificate of tests/data/tls, or none.
inline std::shared_ptr<grpc::ChannelCredentials> TrustingCa(const std::string& ca = "ca.pem",
                                                            const std::string& client = "") {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = TextOf(TlsFile(ca));
  if (!client.empty()) {
    options.pem_cert_chain = TextOf(TlsFile(client + ".pem"));
    options.pem_private_key = TextOf(TlsFile(client + ".key"));
  }
  return grpc::SslCredentials(options);
}

/// With a connection of its own, made now or never: a call does not wait for one.
inline std::shared_ptr<grpc::Channel> Connect(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

/// The same for what must succeed: a busy machine may refuse a first attempt to connect.
inline std::shared_ptr<grpc::Channel> Connected(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  auto channel = Connect(address, credentials);
  EXPECT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1)));
  return channel;
}

/// Of an Attend of `model` with a bearer token; empty: without one.
inline absl::Status Attend(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& token = "", const std::string& model = "demo") {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  if (!token.empty()) {
    context.AddMetadata("authorization", "Bearer " + token);
  }
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {1, 2, 512}));
  request.set_model(model);
  v1::AttendResponse response;
  return ToAbslStatus(v1::AttentionService::NewStub(channel)->Attend(&context, request, &response));
}

}  // namespace attention
