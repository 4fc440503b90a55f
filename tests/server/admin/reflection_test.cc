#include <grpcpp/generic/generic_stub.h>

#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/server/http2_bytes.h"
#include "tests/server/serving_threads.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace v1_reflection = ::grpc::reflection::v1;
namespace v1alpha_reflection = ::grpc::reflection::v1alpha;

/// By which the client's and the server's own pools may grow meanwhile, whatever the streams.
constexpr int64_t kLibraryThreads = 20;

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

/// One stream of version 1.
class ReflectionStream {
 public:
  explicit ReflectionStream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1_reflection::ServerReflection::NewStub(channel)),
        stream_(stub_->ServerReflectionInfo(&context_)) {}
  ~ReflectionStream() { context_.TryCancel(); }

  /// False: the stream has ended.
  bool Ask(const v1_reflection::ServerReflectionRequest& request,
           v1_reflection::ServerReflectionResponse& response) {
    return stream_->Write(request) && stream_->Read(&response);
  }
  grpc::Status End() { return stream_->Finish(); }

 private:
  std::unique_ptr<v1_reflection::ServerReflection::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1_reflection::ServerReflectionRequest,
                                           v1_reflection::ServerReflectionResponse>>
      stream_;
};

v1_reflection::ServerReflectionRequest ListServices() {
  v1_reflection::ServerReflectionRequest request;
  request.set_list_services("*");
  return request;
}

class ReflectionV1Test : public ::testing::Test {
 protected:
  v1_reflection::ServerReflectionResponse Answer(
      const v1_reflection::ServerReflectionRequest& request) {
    v1_reflection::ServerReflectionResponse response;
    EXPECT_TRUE(stream_.Ask(request, response));
    EXPECT_EQ(response.original_request().SerializeAsString(), request.SerializeAsString());
    return response;
  }

  InProcessServer server_;
  ReflectionStream stream_{server_.NewChannel()};
};

TEST_F(ReflectionV1Test, ListsWhatTheListenerServes) {
  std::vector<std::string> names;
  const v1_reflection::ServerReflectionResponse response = Answer(ListServices());
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("attention.v1.AttentionService", "inference.GRPCInferenceService",
                                 "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                 "grpc.reflection.v1alpha.ServerReflection"));
}

TEST_F(ReflectionV1Test, GivesAFileByItsNameAndByWhatItDeclares) {
  v1_reflection::ServerReflectionRequest by_name;
  by_name.set_file_by_filename("inference/open_inference.proto");
  v1_reflection::ServerReflectionRequest by_method;
  by_method.set_file_containing_symbol("inference.GRPCInferenceService.ModelInfer");
  for (const auto& request : {by_name, by_method}) {
    const auto response = Answer(request);
    ASSERT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 1);
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(response.file_descriptor_response().file_descriptor_proto(0)));
    EXPECT_EQ(file.name(), "inference/open_inference.proto");
  }
}

TEST_F(ReflectionV1Test, GivesAFileWithWhatItImportsAndItsExtensions) {
  v1_reflection::ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("google.protobuf.FieldOptions");
  EXPECT_EQ(Answer(request).all_extension_numbers_response().base_type_name(),
            "google.protobuf.FieldOptions");
}

TEST_F(ReflectionV1Test, SaysWhatItDoesNotFindAndGoesOn) {
  v1_reflection::ServerReflectionRequest requests[4];
  requests[0].set_file_by_filename("none.proto");
  requests[1].set_file_containing_symbol("none.Message");
  requests[2].mutable_file_containing_extension()->set_containing_type("none.Message");
  requests[3].set_all_extension_numbers_of_type("none.Message");
  for (const auto& request : requests) {
    const auto error = Answer(request).error_response();
    EXPECT_EQ(error.error_code(), grpc::StatusCode::NOT_FOUND) << request.DebugString();
    EXPECT_THAT(error.error_message(), HasSubstr("none."));
  }
  EXPECT_EQ(Answer({}).error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReflectionV1Test, RefusesARequestThatIsMoreThanAName) {
  v1_reflection::ServerReflectionRequest request;
  request.set_host(std::string(5000, 'x'));
  v1_reflection::ServerReflectionResponse response;
  EXPECT_FALSE(stream_.Ask(request, response));
  const grpc::Status status = stream_.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 4096 bytes, found 5003"));
}

/// SETTINGS_INITIAL_WINDOW_SIZE: how much of each answer the server may send.
std::string Window(uint8_t times_256) {
  return Frame(4, 0, 0, std::string("\0\x04\0\0", 4) + static_cast<char>(times_256) + '\0');
}

/// A call that asks for the list of services.
std::string ListCall(uint32_t stream) {
  return Frame(1, 4, stream,
               CallHeaders("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")) +
         Frame(0, 0, stream, std::string("\0\0\0\0\x03\x3a\x01*", 8));
}

TEST(ReflectionTest, AnAnswerThatNobodyTakesIsGivenUpInTime) {
  InProcessServer server({.threads = 1, .receive_tick = absl::Milliseconds(10)});
  Http2Socket deaf(server.address());
  deaf.Send(Window(0) + ListCall(1));
  const std::string reset = Frame(3, 0, 1, std::string(4, '\0')).substr(0, 9);
  EXPECT_THAT(deaf.ReceiveUntil(reset), HasSubstr(reset));
}

TEST(ReflectionTest, AnswersThatAreTakenWhenTheyAreGivenUpEndOnce) {
  InProcessServer server({.threads = 1, .receive_tick = absl::Milliseconds(10)});
  for (int round = 0; round < 30; ++round) {
    Http2Socket late(server.address());
    std::string calls = Window(0);
    for (uint32_t stream = 1; stream < 180; stream += 2) {
      calls += ListCall(stream);
    }
    late.Send(calls);
    const std::string reset("\0\0\x04\x03", 4);  // the server begins to give them up
    EXPECT_THAT(late.ReceiveUntil(reset), HasSubstr(reset));
    late.Send(Window(255));
  }
  EXPECT_THAT(Reflect(server.NewChannel(), "\x3a\x01*"), HasSubstr("grpc.health.v1.Health"));
}

TEST(ReflectionTest, OpenStreamsTakeNoThreads) {
  InProcessServer server;
  const std::shared_ptr<grpc::Channel> channel = server.NewChannel();
  std::vector<std::unique_ptr<ReflectionStream>> streams;
  const auto open = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v1_reflection::ServerReflectionResponse response;
      streams.push_back(std::make_unique<ReflectionStream>(channel));
      ASSERT_TRUE(streams.back()->Ask(ListServices(), response)) << "stream " << streams.size();
    }
  };
  open(2);
  const int64_t before = NumServingThreads();
  open(900);
  EXPECT_LE(NumServingThreads(), before + kLibraryThreads);
}

// The library's own server had v1alpha alone, with a thread for each stream.
TEST(ReflectionTest, OpenStreamsOfV1AlphaTakeNoThreads) {
  InProcessServer server;
  const auto stub = v1alpha_reflection::ServerReflection::NewStub(server.NewChannel());
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1alpha_reflection::ServerReflectionRequest,
                                             v1alpha_reflection::ServerReflectionResponse>>
        call;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  const auto open = [&](int count) {
    for (int i = 0; i < count; ++i) {
      streams.push_back(std::make_unique<Stream>());
      streams.back()->call = stub->ServerReflectionInfo(&streams.back()->context);
      v1alpha_reflection::ServerReflectionRequest request;
      request.set_list_services("*");
      v1alpha_reflection::ServerReflectionResponse response;
      ASSERT_TRUE(streams.back()->call->Write(request));
      ASSERT_TRUE(streams.back()->call->Read(&response)) << "stream " << streams.size();
      ASSERT_EQ(response.list_services_response().service_size(), 5);
    }
  };
  open(2);
  const int64_t before = NumServingThreads();
  open(300);
  EXPECT_LE(NumServingThreads(), before + kLibraryThreads);
  for (const auto& stream : streams) {
    stream->context.TryCancel();
  }
}

}  // namespace
}  // namespace attention
