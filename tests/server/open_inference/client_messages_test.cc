// What other people's clients send, byte by byte: messages put together by hand as these clients
// encode them, none of which this repository's stubs would write. Attention of one row to one key
// gives that key's value.
#include "proto/codec/status.h"
#include "tests/proto/wire_bytes.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

/// Returns the bytes of the reply.
absl::StatusOr<std::string> Send(const std::shared_ptr<grpc::Channel>& channel,
                                 const std::string& method, const std::string& request) {
  return InferClient::CallWithBytes(channel, method, Cut(request));
}

/// A field of a number below 128.
std::string Number(int field, int value) { return Bytes({field << 3, value}); }

/// An entry of a map from names to InferParameter; `value` is the latter.
std::string Parameter(int field, const std::string& name, const std::string& value) {
  return Delimited(field, Delimited(1, name) + Delimited(2, value));
}

const std::string kOneOfEach = Delimited(3, Bytes({1, 1, 1, 1}));
const std::string kOneF16 = Bytes({0, 0x3c});   // 1.0 in FP16
const std::string kFiveF16 = Bytes({0, 0x45});  // 5.0
const std::string kBareModel = Delimited(1, "attention");
const std::string kRawEntries =
    Delimited(7, kOneF16) + Delimited(7, kOneF16) + Delimited(7, kFiveF16);
const std::string kNamed = kBareModel + Delimited(2, "1");
const std::string kFiveAsOutput =
    Delimited(5, Delimited(1, "output") + Delimited(2, "FP16") + kOneOfEach) +
    Delimited(6, kFiveF16);

/// The three inputs, each with these parameters.
std::string Inputs(const std::string& parameters) {
  std::string inputs;
  for (const std::string name : {"query", "key", "value"}) {
    inputs += Delimited(5, Delimited(1, name) + Delimited(2, "FP16") + kOneOfEach + parameters);
  }
  return inputs;
}

class ClientMessagesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Infer(const std::string& request) {
    return Send(server_.NewChannel(), "ModelInfer", request);
  }

  InProcessServer server_;
};

// InferInput.set_data_from_numpy says how many bytes there are; the request has an id of its own.
TEST_F(ClientMessagesTest, KServesInputsWithTheirBinaryDataSize) {
  const std::string size = Parameter(4, "binary_data_size", Number(2, 2));
  const std::string id = Delimited(3, "9e2a");
  EXPECT_EQ(*Infer(kBareModel + id + Inputs(size) + kRawEntries), kNamed + id + kFiveAsOutput);
}

// RequestedOutput(name, {"binary_data": True}), and the request's binary_data_output.
TEST_F(ClientMessagesTest, KServesOutputsAsBinaryData) {
  const std::string size = Parameter(4, "binary_data_size", Number(2, 2));
  const std::string output =
      Delimited(6, Delimited(1, "output") + Parameter(2, "binary_data", Number(1, 1)));
  EXPECT_EQ(*Infer(kBareModel + Parameter(4, "binary_data_output", Number(1, 1)) + Inputs(size) +
                   output + kRawEntries),
            kNamed + kFiveAsOutput);
  EXPECT_THAT(
      Infer(kBareModel + Inputs(size) +
            Delimited(6, Delimited(1, "output") + Parameter(2, "classification", Number(2, 3))) +
            kRawEntries),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found \"classification\"")))
      << "classes would be another answer";
}

// MLServer's NumpyCodec marks the request, its inputs and its outputs.
TEST_F(ClientMessagesTest, MlServersContentTypes) {
  const std::string np = Delimited(3, "np");
  const std::string output =
      Delimited(6, Delimited(1, "output") + Parameter(2, "content_type", np));
  EXPECT_EQ(*Infer(kBareModel + Parameter(4, "content_type", np) +
                   Inputs(Parameter(4, "content_type", np)) + output + kRawEntries),
            kNamed + kFiveAsOutput);
}

TEST_F(ClientMessagesTest, NoClasses) {
  const std::string output =
      Delimited(6, Delimited(1, "output") + Parameter(2, "classification", Number(2, 0)));
  EXPECT_EQ(*Infer(kBareModel + Inputs("") + output + kRawEntries), kNamed + kFiveAsOutput);
}

// infer(..., priority=1, timeout=0): the one in field 5, the other in field 2; version "-1".
TEST_F(ClientMessagesTest, TritonsRequestsWithPriorityTimeoutAndTheLatestVersion) {
  const std::string parameters =
      Parameter(4, "priority", Number(5, 1)) + Parameter(4, "timeout", Number(2, 0));
  const std::string output = Delimited(6, Delimited(1, "output"));
  EXPECT_EQ(
      *Infer(kBareModel + Delimited(2, "-1") + parameters + Inputs("") + output + kRawEntries),
      kNamed + kFiveAsOutput);
}

// Of perf_analyzer and Triton's examples with shared memory.
TEST_F(ClientMessagesTest, TritonsClientsUnregisterAllCudaMemoryFirst) {
  EXPECT_EQ(*Send(server_.NewChannel(), "CudaSharedMemoryUnregister", ""), "");
  EXPECT_EQ(*Send(server_.NewChannel(), "CudaSharedMemoryStatus", ""), "");
  const std::string region = Delimited(1, "r") + Delimited(2, std::string(64, 'h')) + Number(4, 64);
  EXPECT_THAT(Send(server_.NewChannel(), "CudaSharedMemoryRegister", region).status().code(),
              absl::StatusCode::kUnimplemented);
}

// KServe's messages have the model's name in field 1, Triton's in field 2.
TEST(ClientRepositoryTest, ModelsAreNamedInEitherField) {
  const FakeModelFolder folder;
  folder.Put("good/2", "7");
  const InProcessServer server(OptionsFor(folder.path()));
  const auto channel = server.NewAdminChannel();
  const std::string ready = Number(1, 1);
  const std::string model = Delimited(1, "good");
  for (const int field : {1, 2}) {
    const std::string named = Delimited(field, "good");
    EXPECT_EQ(*Send(channel, "RepositoryModelUnload", named), "");
    EXPECT_EQ(*Send(channel, "ModelReady", model), "");
    EXPECT_EQ(*Send(channel, "RepositoryModelLoad", named), "");
    EXPECT_EQ(*Send(channel, "ModelReady", model), ready);
  }
  EXPECT_THAT(Send(channel, "RepositoryModelLoad", Delimited(1, "t5")).status().code(),
              absl::StatusCode::kNotFound);
  EXPECT_THAT(Send(channel, "RepositoryModelLoad", Delimited(1, "other") + Delimited(2, "good")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("repository_name")));
}

}  // namespace
}  // namespace attention
