// Reloading under load, and what real checkpoints come to.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/tensor/safetensors.h"
#include "tests/server/models/admin_client.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The answers of seeds 1 to `count`, by their bytes.
std::map<std::string, int> AnswersBySeed(int count) {
  ServerOptions options;
  for (int seed = 1; seed <= count; ++seed) {
    options.random_models.push_back({.name = absl::StrCat("s", seed),
                                     .seed = static_cast<uint64_t>(seed),
                                     .d_model = 32,
                                     .num_heads = 2});
  }
  const InProcessServer server(options);
  AttendClient client(server.NewChannel());
  std::map<std::string, int> answers;
  for (int seed = 1; seed <= count; ++seed) {
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(RequestFor(absl::StrCat("s", seed)), &response).ok());
    answers[response.output().data()] = seed;
  }
  return answers;
}

TEST(HotReloadTest, EveryAnswerUnderLoadIsWhollyOneVersionsAndNoneFails) {
  constexpr int kVersions = 12;
  const std::map<std::string, int> seeds = AnswersBySeed(kVersions);
  ASSERT_EQ(seeds.size(), static_cast<size_t>(kVersions));
  const FakeModelFolder folder;
  folder.Put("a/1", "1");
  const InProcessServer server(OptionsFor(folder.path()));

  std::atomic<bool> is_over = false;
  std::atomic<int> last_seen = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      AttendClient client(server.NewChannel());
      int seed = 1;
      while (!is_over && !::testing::Test::HasFailure()) {
        v1::AttendResponse response;
        const grpc::Status status = client.Attend(RequestFor("a"), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        const auto found = seeds.find(response.output().data());
        ASSERT_NE(found, seeds.end()) << "a mixture of versions";
        ASSERT_GE(found->second, seed) << "an older version after a newer one";
        seed = found->second;
        last_seen = seed;
      }
    });
  }
  AdminClient admin(server);
  for (int seed = 2; seed <= kVersions; ++seed) {
    // New versions, and new files of the same version, in turn.
    folder.Put(absl::StrCat("a/", seed / 2 + 1), absl::StrCat(seed));
    EXPECT_THAT(admin.Reload(), IsOk());
    EXPECT_TRUE(Eventually([&] { return last_seen >= seed || ::testing::Test::HasFailure(); }));
  }
  folder.Put("a/100", "broken");
  EXPECT_THAT(admin.Load("a"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("broken")));
  v1::AttendResponse response;
  EXPECT_TRUE(admin.attend().Attend(RequestFor("a"), &response).ok());
  EXPECT_EQ(seeds.at(response.output().data()), kVersions) << "the old one goes on";
  is_over = true;
  for (std::thread& caller : callers) {
    caller.join();
  }
}

/// DIR/NAME with a golden checkpoint of that name.
void PutGolden(const FakeModelFolder& folder, const std::string& name) {
  namespace fs = std::filesystem;
  fs::copy(fs::path(ATTEND_TEST_DATA) / "models" / name, fs::path(folder.path()) / name);
}

TEST(CheckpointTest, ServesWhatIsSoundAndTellsWhatIsNot) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  PutGolden(folder, "llama");
  std::filesystem::resize_file(folder.path() + "/llama/model.safetensors", 1000);
  const InProcessServer server(OptionsFor(folder.path(), LoadModel));
  AdminClient client(server);
  EXPECT_THAT(Lines(client.List()), ElementsAre("gpt2:1 READY+", "llama:1 FAILED"));
  EXPECT_EQ(client.List()->states(0).model_type(), "gpt2");
  EXPECT_GT(client.List()->states(0).weights_bytes(), 0);
  EXPECT_THAT(client.List()->states(1).error(), HasSubstr("/llama/model.safetensors"));
}

TEST(CheckpointTest, VerifyTellsTheCostOfEachLayerAndOfTheWhole) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  for (const auto& [dtype, most] :
       {std::pair(WeightsDtype::kBf16, 0.03), std::pair(WeightsDtype::kInt8, 0.05)}) {
    ServerOptions options = OptionsFor(folder.path(), LoadModel);
    options.models.weights_dtype = dtype;
    const InProcessServer server(options);
    AdminClient client(server);
    const auto verified = client.Verify("gpt2", 1);
    ASSERT_THAT(verified, IsOk());
    EXPECT_EQ(verified->weights_dtype(), Name(dtype));
    std::vector<std::string> names;
    for (const auto& difference : verified->differences()) {
      names.push_back(difference.of());
      EXPECT_GT(difference.relative_l2(), 1e-5) << difference.of();
      EXPECT_LT(difference.relative_l2(), most) << difference.of();
      EXPECT_EQ(difference.has_top1_agreement(), difference.of() == "logits");
    }
    EXPECT_THAT(names, ElementsAre("layer 0", "layer 1", "last hidden states", "logits"));
    EXPECT_GE(verified->differences(3).top1_agreement(), 0.8);
    EXPECT_LE(verified->differences(3).top1_agreement(), 1.0);
  }
}

TEST(CheckpointTest, VerifyFindsAnInfiniteErrorWhereAnAnswerIsNoNumber) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  const std::string file = folder.path() + "/gpt2/model.safetensors";
  auto tensors = ReadSafetensors(file);
  ASSERT_THAT(tensors, IsOk());
  Tensor& bias = tensors->at("transformer.h.0.attn.c_proj.bias");
  std::fill_n(bias.as<float>(), bias.num_elements(), std::numeric_limits<float>::quiet_NaN());
  NamedValues changed;
  for (const auto& [name, tensor] : *tensors) {
    changed.emplace(name, &tensor);
  }
  ASSERT_THAT(WriteSafetensors(file, changed), IsOk());
  ServerOptions options = OptionsFor(folder.path(), LoadModel);
  options.models.weights_dtype = WeightsDtype::kBf16;
  const InProcessServer server(options);
  const auto verified = AdminClient(server).Verify("gpt2");
  ASSERT_THAT(verified, IsOk());
  for (const int i : {0, 2, 3}) {
    EXPECT_EQ(verified->differences(i).relative_l2(), std::numeric_limits<double>::infinity());
    EXPECT_EQ(verified->differences(i).max_abs_error(), std::numeric_limits<double>::infinity());
  }
  EXPECT_LT(verified->differences(1).relative_l2(), 0.03) << "the other layer";
  EXPECT_EQ(verified->differences(3).top1_agreement(), 0);
}

TEST(CheckpointTest, VerifyFindsF32Exact) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  const InProcessServer server(OptionsFor(folder.path(), LoadModel));
  const auto verified = AdminClient(server).Verify("gpt2");
  ASSERT_THAT(verified, IsOk());
  EXPECT_EQ(verified->weights_dtype(), "fp32");
  EXPECT_THAT(verified->differences(), IsEmpty());
}

}  // namespace
}  // namespace attention
