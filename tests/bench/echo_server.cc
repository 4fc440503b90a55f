// A server that costs next to nothing: one thread that gives every AttendRequest the same answer,
// of shape (1, 1, 64). What `attend bench` measures of it is `attend bench` and gRPC.
//
//   attend-echo-server [PORT]     on loopback; prints where, and runs until it is killed
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "proto/attention/v1/attention.pb.h"

namespace attention {
namespace {

constexpr int kWidth = 64;
/// Calls that wait to be taken at any time.
constexpr int kWaiting = 256;

grpc::ByteBuffer Answer() {
  v1::AttendResponse response;
  response.mutable_output()->set_dtype(v1::FP32);
  for (const int64_t size : {1, 1, kWidth}) {
    response.mutable_output()->add_shape(size);
  }
  response.mutable_output()->set_data(std::string(kWidth * sizeof(float), '\0'));
  response.mutable_summary()->set_batch_requests(1);
  response.mutable_summary()->set_batch_sequences(1);
  response.mutable_summary()->set_batch_tokens(1);
  const std::string bytes = response.SerializeAsString();
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

/// One call after the other; its address is the tag of its events.
class EchoCall {
 public:
  EchoCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue,
           const grpc::ByteBuffer& answer)
      : service_(service), queue_(queue), answer_(answer) {
    Wait();
  }

  void Advance(bool ok) {
    if (step_ == Step::kWait && ok) {
      step_ = Step::kRead;
      stream_->Read(&request_, this);
    } else if (step_ == Step::kRead && ok) {
      step_ = Step::kAnswer;
      stream_->WriteAndFinish(answer_, grpc::WriteOptions(), grpc::Status::OK, this);
    } else {
      Wait();
    }
  }

 private:
  enum class Step { kWait, kRead, kAnswer };

  void Wait() {
    stream_.reset();
    context_ = std::make_unique<grpc::GenericServerContext>();
    stream_ = std::make_unique<grpc::GenericServerAsyncReaderWriter>(context_.get());
    step_ = Step::kWait;
    service_.RequestCall(context_.get(), stream_.get(), &queue_, &queue_, this);
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  const grpc::ByteBuffer& answer_;
  std::unique_ptr<grpc::GenericServerContext> context_;
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream_;
  Step step_ = Step::kWait;
  grpc::ByteBuffer request_;
};

int Serve(const std::string& port) {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int bound_port = 0;
  builder.AddListeningPort("127.0.0.1:" + port, grpc::InsecureServerCredentials(), &bound_port);
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound_port == 0) {
    std::cerr << "attend-echo-server: 127.0.0.1:" << port << " cannot be listened on\n";
    return 1;
  }
  const grpc::ByteBuffer answer = Answer();
  std::vector<std::unique_ptr<EchoCall>> calls;
  for (int i = 0; i < kWaiting; ++i) {
    calls.push_back(std::make_unique<EchoCall>(service, *queue, answer));
  }
  std::cout << "attend-echo-server listening on 127.0.0.1:" << bound_port << std::endl;
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    static_cast<EchoCall*>(tag)->Advance(ok);
  }
  return 0;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) { return attention::Serve(argc > 1 ? argv[1] : "0"); }
