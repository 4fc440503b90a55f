#include <grpcpp/generic/generic_stub.h>

#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

class Queue : public grpc::CompletionQueue {
 public:
  /// Waits for the one operation that is under way.
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return Next(&tag, &ok) && ok;
  }
};

// One request to the reflection service, without its generated code: the bytes of the request and
// of the answer.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, const std::string& request) {
  grpc::ClientContext context;
  Queue queue;
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(queue.Await());
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  EXPECT_TRUE(queue.Await());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  EXPECT_TRUE(queue.Await());
  call->WritesDone(nullptr);
  EXPECT_TRUE(queue.Await());
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(queue.Await());
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice whole;
  EXPECT_TRUE(answer.DumpToSingleSlice(&whole).ok());
  return std::string(reinterpret_cast<const char*>(whole.begin()), whole.size());
}

TEST(ReflectionTest, ListsTheServices) {
  InProcessServer server;
  const std::string list_services = "\x3a\x01*";
  const std::string services = Reflect(server.NewChannel(), list_services);
  EXPECT_THAT(services, HasSubstr("attention.v1.AttentionService"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

TEST(ReflectionTest, DescribesThem) {
  InProcessServer server;
  const std::string symbol = "attention.v1.AttentionService";
  const std::string file = Reflect(
      server.NewChannel(), "\x22" + std::string(1, static_cast<char>(symbol.size())) + symbol);
  EXPECT_THAT(file, HasSubstr("attention/v1/attention.proto"));
  EXPECT_THAT(file, HasSubstr("QueryKeyValue"));
}

}  // namespace
}  // namespace attention
