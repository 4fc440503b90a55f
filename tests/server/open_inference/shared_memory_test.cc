// Tensors in shared memory, and objects that change under the server.
#include "server/services/open_inference/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/tensor/seeded.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::SizeIs;
using Stub = InferClient::Stub;

constexpr int64_t kTensorBytes = 2 * 512 * 4;

/// A client's object, of a name of its own.
class Object {
 public:
  explicit Object(int64_t size) : file_(shm_open(key().c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
    EXPECT_GE(file_, 0);
    Resize(size);
  }
  ~Object() {
    close(file_);
    shm_unlink(key().c_str());
  }

  static std::string key() { return absl::StrCat("/attend_test_", getpid()); }
  void Resize(int64_t size) const { EXPECT_EQ(ftruncate(file_, size), 0); }
  void Write(int64_t offset, const std::string& bytes) const {
    EXPECT_EQ(pwrite(file_, bytes.data(), bytes.size(), offset), std::ssize(bytes));
  }
  std::string Read(int64_t offset, int64_t count) const {
    std::string bytes(static_cast<size_t>(count), '\0');
    EXPECT_EQ(pread(file_, bytes.data(), bytes.size(), offset), count);
    return bytes;
  }
  int64_t size() const {
    struct stat status;
    EXPECT_EQ(fstat(file_, &status), 0);
    return status.st_size;
  }

 private:
  const int file_;
};

inference::ModelInferRequest RowsOfDemo() {
  inference::ModelInferRequest request = InferRequest("demo");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 2, 512}));
  return request;
}

template <typename Tensor>
void PutInRegion(Tensor& tensor, const std::string& region, int64_t offset, int64_t byte_size) {
  auto& parameters = *tensor.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_offset"].set_int64_param(offset);
  parameters["shared_memory_byte_size"].set_int64_param(byte_size);
}

/// The same, with its input at 4096 of region "in" and its output at 64 of "out".
inference::ModelInferRequest SharedRowsOfDemo() {
  inference::ModelInferRequest request = RowsOfDemo();
  request.clear_raw_input_contents();
  PutInRegion(*request.mutable_inputs(0), "in", 4096, kTensorBytes);
  auto& output = *request.add_outputs();
  output.set_name("output");
  PutInRegion(output, "out", 64, 2 * kTensorBytes);
  return request;
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  absl::Status Register(const std::string& name, const std::string& key, uint64_t offset,
                        uint64_t byte_size) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_offset(offset);
    request.set_byte_size(byte_size);
    return client_.Call(&Stub::SystemSharedMemoryRegister, request).status();
  }
  absl::StatusOr<inference::SystemSharedMemoryStatusResponse> Status(const std::string& name) {
    inference::SystemSharedMemoryStatusRequest request;
    request.set_name(name);
    return client_.Call(&Stub::SystemSharedMemoryStatus, request);
  }
  absl::Status Unregister(const std::string& name) {
    inference::SystemSharedMemoryUnregisterRequest request;
    request.set_name(name);
    return client_.Call(&Stub::SystemSharedMemoryUnregister, request).status();
  }
  void RegisterBoth() {
    EXPECT_THAT(Register("in", Object::key(), 0, 16384), IsOk());
    EXPECT_THAT(Register("out", Object::key(), 16384, 16384), IsOk());
    object_.Write(4096, BytesOf(SeededTensor(1, Dtype::kF32, {1, 2, 512})));
  }

  InProcessServer server_{{.admin_listen = "127.0.0.1:0", .allow_shared_memory = true}};
  InferClient client_{server_.NewAdminChannel()};
  Object object_{32768};
};

TEST_F(SharedMemoryTest, TensorsGoThereAndBack) {
  RegisterBoth();
  const auto shared = client_.Infer(SharedRowsOfDemo());
  ASSERT_THAT(shared, IsOk());
  ASSERT_THAT(shared->outputs(), SizeIs(1));
  ASSERT_THAT(shared->raw_output_contents(), SizeIs(1));
  EXPECT_EQ(shared->raw_output_contents(0), "") << "an entry, but an empty one";
  const auto& parameters = shared->outputs(0).parameters();
  EXPECT_EQ(parameters.at("shared_memory_region").string_param(), "out");
  EXPECT_EQ(parameters.at("shared_memory_byte_size").int64_param(), kTensorBytes);
  EXPECT_EQ(parameters.at("shared_memory_offset").int64_param(), 64);
  const auto sent = client_.Infer(RowsOfDemo());
  ASSERT_THAT(sent, IsOk());
  EXPECT_TRUE(object_.Read(16384 + 64, kTensorBytes) == sent->raw_output_contents(0));
}

// Raw entries stand for the inputs that are not in shared memory.
TEST_F(SharedMemoryTest, OtherInputsKeepTheirRawEntries) {
  RegisterBoth();
  inference::ModelInferRequest request = SharedRowsOfDemo();
  request.clear_outputs();
  AddInt32(request, "lengths", {1}, {1});
  const auto mixed = client_.Infer(request);
  ASSERT_THAT(mixed, IsOk());
  inference::ModelInferRequest sent = RowsOfDemo();
  AddInt32(sent, "lengths", {1}, {1});
  EXPECT_TRUE(mixed->raw_output_contents(0) == client_.Infer(sent)->raw_output_contents(0));
}

TEST_F(SharedMemoryTest, AStreamTakesThemToo) {
  RegisterBoth();
  grpc::ClientContext context;
  InferClient::SetDeadline(context);
  const auto stream = client_.stub().ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(SharedRowsOfDemo()));
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.error_message(), "");
  EXPECT_TRUE(object_.Read(16384 + 64, kTensorBytes) ==
              client_.Infer(RowsOfDemo())->raw_output_contents(0));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SharedMemoryTest, ObjectsThatBecameShorterAreAnErrorAndNotTheEnd) {
  RegisterBoth();
  object_.Resize(5000);
  EXPECT_THAT(client_.Infer(SharedRowsOfDemo()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "input \"hidden_states\": shared-memory region \"in\": expected an object "
                       "of at least 8192 bytes, as when it was registered, found 5000"));
  object_.Resize(16384);
  EXPECT_THAT(client_.Infer(SharedRowsOfDemo()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "output \"output\": shared-memory region \"out\": expected an object of at "
                       "least 20544 bytes, as when it was registered, found 16384"));
  EXPECT_EQ(object_.size(), 16384) << "it does not grow again";
  EXPECT_THAT(client_.Infer(RowsOfDemo()), IsOk());
}

TEST_F(SharedMemoryTest, RangesThatDoNotFit) {
  RegisterBoth();
  inference::ModelInferRequest request = SharedRowsOfDemo();
  PutInRegion(*request.mutable_inputs(0), "in", 4096, kTensorBytes - 4);
  EXPECT_THAT(client_.Infer(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "input \"hidden_states\": expected 4096 bytes, found a "
                       "shared_memory_byte_size of 4092"));
  PutInRegion(*request.mutable_inputs(0), "in", 12289, kTensorBytes);
  EXPECT_THAT(client_.Infer(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "input \"hidden_states\": expected at most the 16384 bytes of shared-memory "
                       "region \"in\", found 4096 from offset 12289"));
  PutInRegion(*request.mutable_inputs(0), "elsewhere", 0, kTensorBytes);
  EXPECT_THAT(client_.Infer(request),
              StatusIs(absl::StatusCode::kNotFound,
                       "input \"hidden_states\": expected a registered shared-memory region "
                       "(\"in\", \"out\"), found \"elsewhere\""));
  request = SharedRowsOfDemo();
  PutInRegion(*request.mutable_outputs(0), "out", 0, kTensorBytes - 1);
  EXPECT_THAT(client_.Infer(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "output \"output\": expected a shared_memory_byte_size of at least 4096, "
                       "found 4095"));
}

TEST_F(SharedMemoryTest, RegionsAreListedUntilTheyAreUnregistered) {
  RegisterBoth();
  const auto all = Status("");
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(all->regions(), SizeIs(2));
  const auto region = Status("out")->regions().at("out");
  EXPECT_EQ(region.name(), "out");
  EXPECT_EQ(region.key(), Object::key());
  EXPECT_EQ(region.offset(), 16384);
  EXPECT_EQ(region.byte_size(), 16384);
  EXPECT_THAT(Unregister("out"), IsOk());
  EXPECT_THAT(Unregister("out"), IsOk()) << "clients clean up at their start";
  EXPECT_THAT(Status("out"), StatusIs(absl::StatusCode::kNotFound,
                                      "expected a registered shared-memory region (\"in\"), found "
                                      "\"out\""));
  EXPECT_THAT(Unregister(""), IsOk());
  EXPECT_THAT(Status("")->regions(), SizeIs(0));
}

TEST_F(SharedMemoryTest, RegionsThatCannotBe) {
  RegisterBoth();
  EXPECT_THAT(Register("in", Object::key(), 0, 1),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       "name: shared-memory region \"in\" is registered already"));
  EXPECT_THAT(Register("", Object::key(), 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "name: expected a name for the region, found none"));
  EXPECT_THAT(Register("new", "/attend_test_of_nobody", 0, 1),
              StatusIs(absl::StatusCode::kNotFound,
                       "key: expected a shared-memory object, found \"/attend_test_of_nobody\": No "
                       "such file or directory"));
  for (const std::string key : {"", "/", "/../etc/passwd", "/..", "a/b"}) {
    EXPECT_THAT(Register("new", key, 0, 1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("key: expected the name of a shared-memory object, as /name, "
                                      "found \"",
                                      key, "\"")));
  }
  EXPECT_THAT(Register("new", Object::key(), 32000, 769),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("byte_size: expected at most the 32768 bytes of \"",
                                    Object::key(), "\", found 769 from offset 32000")));
  EXPECT_THAT(Register("new", Object::key(), ~uint64_t{0}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("found 2 from")));
  EXPECT_THAT(
      Register("new", Object::key(), 0, 0),
      StatusIs(absl::StatusCode::kInvalidArgument, "byte_size: expected 1 or more, found 0"));
}

TEST_F(SharedMemoryTest, RegionsAreLimited) {
  SharedMemory memory;
  absl::Status status;
  int registered = 0;
  while ((status = memory.Register({absl::StrCat(registered), Object::key(), 0, 1})).ok()) {
    ++registered;
  }
  EXPECT_EQ(registered, 256);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "name: expected at most 256 shared-memory regions, found one more"));
}

TEST(SharedMemoryOffTest, NamesTheFlag) {
  InProcessServer server({.admin_listen = "127.0.0.1:0"});
  InferClient client(server.NewAdminChannel());
  const auto is_off = StatusIs(absl::StatusCode::kUnimplemented,
                               "shared memory is off: the server was started without "
                               "--allow-shared-memory");
  EXPECT_THAT(
      client.Call(&Stub::SystemSharedMemoryStatus, inference::SystemSharedMemoryStatusRequest()),
      is_off);
  EXPECT_THAT(client.Call(&Stub::SystemSharedMemoryRegister,
                          inference::SystemSharedMemoryRegisterRequest()),
              is_off);
  EXPECT_THAT(client.Call(&Stub::SystemSharedMemoryUnregister,
                          inference::SystemSharedMemoryUnregisterRequest()),
              is_off);
}

}  // namespace
}  // namespace attention
