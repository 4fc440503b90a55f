// What the service says of itself and its models, and the calls that load them.
#include <grpcpp/generic/generic_stub.h>

#include "absl/strings/str_cat.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using Stub = InferClient::Stub;

class DescribeTest : public GoldenServerTest {
 protected:
  inference::ModelMetadataResponse Metadata(const std::string& name) {
    inference::ModelMetadataRequest request;
    request.set_name(name);
    return infer_.Call(&Stub::ModelMetadata, request).value();
  }
  /// "NAME DATATYPE [SHAPE]".
  template <typename Tensors>
  static std::vector<std::string> Lines(const Tensors& tensors) {
    std::vector<std::string> lines;
    for (const auto& tensor : tensors) {
      lines.push_back(absl::StrCat(tensor.name(), " ", tensor.datatype(), " ",
                                   ShapeText({tensor.shape().begin(), tensor.shape().end()})));
    }
    return lines;
  }
  inference::ModelStatistics StatisticsOf(const std::string& name) {
    inference::ModelStatisticsRequest request;
    request.set_name(name);
    request.set_version("1");
    return infer_.Call(&Stub::ModelStatistics, request).value().model_stats(0);
  }

  InferClient infer_{server_->NewChannel()};
};

TEST_F(DescribeTest, TheServerLivesAndIsReady) {
  EXPECT_TRUE(infer_.Call(&Stub::ServerLive, inference::ServerLiveRequest())->live());
  EXPECT_TRUE(infer_.Call(&Stub::ServerReady, inference::ServerReadyRequest())->ready());
  const auto metadata = infer_.Call(&Stub::ServerMetadata, inference::ServerMetadataRequest());
  EXPECT_EQ(metadata->name(), "attend");
  EXPECT_NE(metadata->version(), "");
  EXPECT_THAT(metadata->extensions(),
              ElementsAre("model_configuration", "parameters", "schedule_policy", "statistics"));
}

TEST_F(DescribeTest, ModelsAreReadyByVersion) {
  const auto is_ready = [&](const std::string& name, const std::string& version) {
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    return infer_.Call(&Stub::ModelReady, request)->ready();
  };
  EXPECT_TRUE(is_ready("gpt2", ""));
  EXPECT_TRUE(is_ready("gpt2", "1"));
  EXPECT_TRUE(is_ready("gpt2", "-1"));
  EXPECT_TRUE(is_ready("attention", "1"));
  EXPECT_TRUE(is_ready("attention", "-1"));
  EXPECT_FALSE(is_ready("gpt2", "2"));
  EXPECT_FALSE(is_ready("t5", ""));
}

TEST_F(DescribeTest, MetadataNamesEveryInput) {
  const inference::ModelMetadataResponse gpt2 = Metadata("gpt2");
  EXPECT_EQ(gpt2.name(), "gpt2");
  EXPECT_EQ(gpt2.platform(), "attend_onednn");
  EXPECT_THAT(gpt2.versions(), ElementsAre("1"));
  EXPECT_THAT(Lines(gpt2.inputs()),
              ElementsAre("input_ids INT64 [-1, -1]", "hidden_states FP32 [-1, -1, 36]",
                          "lengths INT32 [-1]", "attention_mask INT64 [-1, -1]"));
  EXPECT_THAT(Lines(gpt2.outputs()), ElementsAre("output FP32 [-1, -1, 36]"))
      << "weights go with a layer";
  EXPECT_THAT(Lines(Metadata("torch_mha-all").outputs()),
              ElementsAre("output FP32 [-1, -1, 24]", "weights FP32 [-1, 4, -1, -1]"));
  EXPECT_THAT(Lines(Metadata("bert").inputs()), IsSupersetOf({"token_type_ids INT64 [-1, -1]"}));
  EXPECT_THAT(Lines(Metadata("torch_transformer").inputs()),
              ElementsAre("hidden_states FP32 [-1, -1, 24]", "lengths INT32 [-1]",
                          "attention_mask INT64 [-1, -1]", "memory FP32 [-1, -1, 24]",
                          "memory_lengths INT32 [-1]"));
  EXPECT_THAT(Lines(Metadata("torch_mha-kdim-vdim").inputs()),
              IsSupersetOf({"memory FP32 [-1, -1, 18]", "memory_values FP32 [-1, -1, 30]"}));
  EXPECT_THAT(Lines(Metadata("attention").inputs()),
              ElementsAre("query FP32 [-1, -1, -1, -1]", "key FP32 [-1, -1, -1, -1]",
                          "value FP32 [-1, -1, -1, -1]", "bias FP32 [-1, -1, -1, -1]",
                          "kv_lengths INT32 [-1]"));
}

TEST_F(DescribeTest, ConfigurationsHaveTheBatchAmongTheExtents) {
  inference::ModelConfigRequest request;
  request.set_name("gpt2");
  const inference::ModelConfig config = infer_.Call(&Stub::ModelConfig, request)->config();
  EXPECT_EQ(config.name(), "gpt2");
  EXPECT_EQ(config.platform(), "attend_onednn");
  EXPECT_EQ(config.backend(), "attend");
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_EQ(config.input(0).name(), "input_ids");
  EXPECT_EQ(config.input(0).data_type(), 9);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1, -1));
  EXPECT_FALSE(config.input(0).optional());
  EXPECT_EQ(config.input(1).data_type(), 11);
  EXPECT_TRUE(config.input(1).optional()) << "input_ids are there instead";
  EXPECT_EQ(config.input(2).data_type(), 8);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(-1, -1, 36));
  EXPECT_EQ(config.parameters().at("model_type").string_value(), "gpt2");
  EXPECT_FALSE(config.model_transaction_policy().decoupled());
  request.set_version("3");
  EXPECT_THAT(
      infer_.Call(&Stub::ModelConfig, request),
      StatusIs(absl::StatusCode::kNotFound, "version: expected 1 of model \"gpt2\", found 3"));
  request.set_name("t5");
  EXPECT_THAT(infer_.Call(&Stub::ModelConfig, request),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(StartsWith("name: expected one of"), HasSubstr("found \"t5\""))));
}

TEST_F(DescribeTest, StatisticsCountWhatWasAnsweredAndWhatWasNot) {
  const inference::ModelStatistics before = StatisticsOf("roberta");
  EXPECT_EQ(before.name(), "roberta");
  EXPECT_EQ(before.version(), "1");
  inference::ModelInferRequest request = InferRequest("roberta");
  AddInt64(request, "input_ids", {1, 3}, {1, 2, 3});
  EXPECT_THAT(infer_.Infer(request), IsOk());
  EXPECT_THAT(infer_.Infer(request), IsOk());
  SetLayer(request, 99);
  EXPECT_FALSE(infer_.Infer(request).ok());
  inference::ModelStatistics after;
  EXPECT_TRUE(Eventually([&] {
    after = StatisticsOf("roberta");
    return after.inference_stats().success().count() + after.inference_stats().fail().count() == 3;
  }));
  EXPECT_EQ(after.inference_count(), before.inference_count() + 2);
  EXPECT_EQ(after.execution_count(), before.execution_count() + 2);
  EXPECT_GT(after.last_inference(), 1'700'000'000'000);
  const inference::InferStatistics& stats = after.inference_stats();
  EXPECT_EQ(stats.success().count(), 2);
  EXPECT_EQ(stats.fail().count(), 1);
  EXPECT_EQ(stats.compute_infer().count(), 2);
  EXPECT_GT(stats.compute_infer().ns(), 0);
  EXPECT_GE(stats.success().ns(), stats.compute_infer().ns() + stats.queue().ns());
}

TEST_F(DescribeTest, StatisticsAreOfAllModelsUnlessOneIsNamed) {
  const auto all = infer_.Call(&Stub::ModelStatistics, inference::ModelStatisticsRequest());
  EXPECT_GT(all->model_stats_size(), 20);
  inference::ModelStatisticsRequest request;
  request.set_name("gpt2");
  request.set_version("-1");
  const auto latest = infer_.Call(&Stub::ModelStatistics, request);
  ASSERT_EQ(latest->model_stats_size(), 1);
  EXPECT_EQ(latest->model_stats(0).version(), "1");
  request.set_name("t5");
  EXPECT_THAT(infer_.Call(&Stub::ModelStatistics, request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("found \"t5\"")));
}

// To register CUDA memory, traces and log settings.
TEST_F(DescribeTest, MethodsThatAreNotDeclaredAreUnimplemented) {
  grpc::GenericStub stub(server_->NewChannel());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call =
      stub.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
                            grpc::ByteBuffer(), &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(DescribeTest, ThereIsNoCudaMemoryAndNothingToUnregister) {
  inference::CudaSharedMemoryStatusRequest status;
  const auto none = infer_.Call(&Stub::CudaSharedMemoryStatus, status);
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->ByteSizeLong(), 0u);
  status.set_name("region");
  EXPECT_THAT(infer_.Call(&Stub::CudaSharedMemoryStatus, status),
              StatusIs(absl::StatusCode::kNotFound,
                       "name: expected none, as no CUDA memory is ever registered, found "
                       "\"region\""));
  inference::CudaSharedMemoryUnregisterRequest unregister;
  EXPECT_THAT(infer_.Call(&Stub::CudaSharedMemoryUnregister, unregister), IsOk());
  unregister.set_name("region");
  EXPECT_THAT(infer_.Call(&Stub::CudaSharedMemoryUnregister, unregister), IsOk());
}

std::vector<std::string> IndexLines(InferClient& client, bool ready) {
  inference::RepositoryIndexRequest request;
  request.set_ready(ready);
  std::vector<std::string> lines;
  const auto response = client.Call(&Stub::RepositoryIndex, request);
  EXPECT_THAT(response, IsOk());
  const auto index = response.value_or(inference::RepositoryIndexResponse());
  for (const auto& model : index.models()) {
    // What was unloaded may be held for a moment by a call that has been answered.
    const std::string state = model.state() == "UNLOADING" ? "UNAVAILABLE" : model.state();
    lines.push_back(absl::StrCat(model.name(), ":", model.version(), " ", state,
                                 model.state() == "UNLOADING" ? "" : model.reason()));
  }
  return lines;
}

TEST(RepositoryTest, ModelsAreLoadedAndUnloaded) {
  const FakeModelFolder folder;
  folder.Put("good/2", "7");
  folder.Put("bad", "none");
  const InProcessServer server(OptionsFor(folder.path()));
  InferClient client(server.NewAdminChannel());
  const std::vector<std::string> index = IndexLines(client, false);
  ASSERT_EQ(index.size(), 4);
  EXPECT_EQ(index[0], "attention:1 READY");
  EXPECT_THAT(index[1], StartsWith("bad:1 UNAVAILABLE"));
  EXPECT_THAT(index[1], HasSubstr("expected a seed, found none"));
  EXPECT_EQ(index[2], "demo:1 READY");
  EXPECT_EQ(index[3], "good:2 READY");
  EXPECT_THAT(IndexLines(client, true),
              ElementsAre("attention:1 READY", "demo:1 READY", "good:2 READY"));

  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("good");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(false);
  EXPECT_THAT(client.Call(&Stub::RepositoryModelUnload, unload), IsOk());
  EXPECT_THAT(IndexLines(client, true), ElementsAre("attention:1 READY", "demo:1 READY"));
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("good");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load), IsOk());
  EXPECT_THAT(IndexLines(client, true),
              ElementsAre("attention:1 READY", "demo:1 READY", "good:2 READY"));
  load.set_model_name("bad");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a seed")));
  load.set_model_name("t5");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kNotFound, StartsWith("model_name: expected one of ")));
  load.clear_model_name();
  load.set_repository_name("t5");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kNotFound, StartsWith("repository_name: expected one")));
}

TEST(RepositoryTest, EveryCallerReadsTheIndexAndAdministratorsChangeModels) {
  const FakeModelFolder folder;
  folder.Put("good/2", "7");
  ServerOptions options = OptionsFor(folder.path());
  options.allow_shared_memory = true;
  const InProcessServer server(options);
  InferClient caller(server.NewChannel());
  InferClient administrator(server.NewAdminChannel());
  EXPECT_EQ(IndexLines(caller, false), IndexLines(administrator, false));
  const auto extensions = [](InferClient& client) {
    return client.Call(&Stub::ServerMetadata, inference::ServerMetadataRequest())->extensions();
  };
  const std::vector<std::string> changes = {"model_repository", "system_shared_memory"};
  EXPECT_THAT(extensions(administrator), IsSupersetOf(changes));
  for (const std::string& change : changes) {
    EXPECT_THAT(extensions(caller), Not(Contains(change)));
  }
}

TEST(RepositoryTest, WhatChangesNothingIsRefused) {
  const InProcessServer server({.admin_listen = "127.0.0.1:0"});
  InferClient client(server.NewAdminChannel());
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("demo");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "the server has no folder of models (--models)"));
  load.set_repository_name("other");
  EXPECT_THAT(client.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "repository_name: expected none, as there is one repository, found "
                       "\"other\""));

  const FakeModelFolder folder;
  const InProcessServer with_folder(OptionsFor(folder.path()));
  InferClient other(with_folder.NewAdminChannel());
  load.clear_repository_name();
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_THAT(other.Call(&Stub::RepositoryModelLoad, load),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "parameters: expected none: models are read from the server's folder, "
                       "found \"config\""));
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("demo");
  (*unload.mutable_parameters())["force"].set_bool_param(true);
  EXPECT_THAT(other.Call(&Stub::RepositoryModelUnload, unload),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "parameters: expected unload_dependents (bool) or none, found \"force\""));
}

}  // namespace
}  // namespace attention
