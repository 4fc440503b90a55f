// The loader's thread: when it begins, what it does by itself, how it ends.
#include "server/models/model_loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "gmock/gmock.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
constexpr auto kPatience = std::chrono::minutes(5);

class ModelLoaderTest : public ::testing::Test {
 protected:
  ModelLoader& Start(absl::Duration poll_interval = absl::ZeroDuration()) {
    ModelLoaderOptions options;
    options.folder.path = folder_.path();
    options.weights_dtype = weights_dtype_;
    options.poll_interval = poll_interval;
    options.load = load_;
    loader_ = std::make_unique<ModelLoader>(options, repository_, health_);
    loader_->Start(on_loaded_);
    return *loader_;
  }
  bool IsLoaded() { return loaded_.get_future().wait_for(kPatience) == std::future_status::ready; }

  using Operation = void (ModelLoader::*)(const ModelRequest&, ModelLoader::Done);
  absl::Status Call(Operation operation, ModelRequest request) {
    std::promise<absl::Status> done;
    if (request.is_cancelled == nullptr) {
      request.is_cancelled = [] { return false; };
    }
    (loader_.get()->*operation)(request,
                                [&](const absl::Status& status) { done.set_value(status); });
    return done.get_future().get();
  }
  absl::StatusOr<ModelVerification> Verify(const std::string& name) {
    std::promise<absl::StatusOr<ModelVerification>> done;
    loader_->Verify(
        {.name = name, .is_cancelled = [] { return false; }},
        [&](absl::StatusOr<ModelVerification> result) { done.set_value(std::move(result)); });
    return done.get_future().get();
  }
  uint64_t ServingSeed(const std::string& name) const {
    const std::shared_ptr<const Model> model = repository_.Find(name);
    return model == nullptr ? 0 : model->info().seeded->seed;
  }
  /// Lets the loader go on until it serves that.
  bool ServesInTheEnd(const std::string& name, uint64_t seed) {
    return Eventually([&] { return ServingSeed(name) == seed; });
  }

  const FakeModelFolder folder_;
  ModelRepository repository_;
  HealthRegistry health_;
  LoadFunction load_ = LoadFakeModel;
  WeightsDtype weights_dtype_ = WeightsDtype::kF32;
  std::promise<void> loaded_;
  std::function<void()> on_loaded_ = [this] { loaded_.set_value(); };
  std::unique_ptr<ModelLoader> loader_;
};

TEST_F(ModelLoaderTest, LoadsEverythingThenSaysSo) {
  folder_.Put("a", "1");
  folder_.Put("b", "broken");
  Start();
  EXPECT_TRUE(IsLoaded());
  EXPECT_EQ(ServingSeed("a"), 1);
  EXPECT_EQ(loader_->States().size(), 2u);
}

TEST_F(ModelLoaderTest, SaysSoAgainWhenThereWasNoMemoryForIt) {
  on_loaded_ = [this, tries = 0]() mutable {
    if (++tries == 1) {
      throw std::bad_alloc();
    }
    loaded_.set_value();
  };
  Start();
  EXPECT_TRUE(IsLoaded());
  folder_.Put("a", "1");
  EXPECT_THAT(Call(&ModelLoader::Reload, {}), IsOk()) << "the loader continues";
}

TEST_F(ModelLoaderTest, LoadsAtALowPriorityOfItsOwn) {
  folder_.Put("a", "1");
  std::atomic<int> niceness = -1;
  load_ = [&](const ModelSource& source, WeightsDtype dtype) {
    niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    return LoadFakeModel(source, dtype);
  };
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  Start();
  EXPECT_TRUE(IsLoaded());
  EXPECT_EQ(niceness, std::max(own, 10));
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), own);
}

TEST_F(ModelLoaderTest, APollPicksUpWhatComesChangesAndGoes) {
  Start(absl::Milliseconds(1));
  folder_.Put("a/1", "1");
  EXPECT_TRUE(ServesInTheEnd("a", 1));
  folder_.Put("a/2", "2");
  EXPECT_TRUE(ServesInTheEnd("a", 2));
  folder_.Put("a/2", "33");
  EXPECT_TRUE(ServesInTheEnd("a", 33));
  folder_.Remove("a");
  EXPECT_TRUE(ServesInTheEnd("a", 0));
}

TEST_F(ModelLoaderTest, WithoutAPollTheFolderIsLookedAtOnRequest) {
  Start();
  ASSERT_TRUE(IsLoaded());
  folder_.Put("a", "1");
  EXPECT_THAT(Call(&ModelLoader::Unload, {.name = "none"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_EQ(ServingSeed("a"), 0);
  EXPECT_THAT(Call(&ModelLoader::Reload, {}), IsOk());
  EXPECT_EQ(ServingSeed("a"), 1);
  EXPECT_THAT(Call(&ModelLoader::Unload, {.name = "a"}), IsOk());
  EXPECT_EQ(ServingSeed("a"), 0);
  EXPECT_THAT(Call(&ModelLoader::Load, {.name = "a", .version = 1}), IsOk());
  EXPECT_EQ(ServingSeed("a"), 1);
}

TEST_F(ModelLoaderTest, WhatWasCancelledIsNotBegun) {
  folder_.Put("a", "1");
  Start();
  ASSERT_TRUE(IsLoaded());
  EXPECT_THAT(Call(&ModelLoader::Unload, {.name = "a", .is_cancelled = [] { return true; }}),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("before the work began")));
  EXPECT_EQ(ServingSeed("a"), 1);
}

TEST_F(ModelLoaderTest, FreesModelsOnItsOwnThread) {
  folder_.Put("a", "1");
  Start();
  ASSERT_TRUE(IsLoaded());
  const std::weak_ptr<const Model> model = repository_.Find("a");
  std::shared_ptr<const Model> in_use = model.lock();
  EXPECT_THAT(Call(&ModelLoader::Unload, {.name = "a"}), IsOk());
  EXPECT_FALSE(model.expired());
  in_use.reset();
  EXPECT_TRUE(model.expired());
  EXPECT_THAT(Call(&ModelLoader::Reload, {}), IsOk());  // by now it has been freed, once
}

TEST_F(ModelLoaderTest, ModelsMayOutliveIt) {
  folder_.Put("a", "1");
  Start();
  ASSERT_TRUE(IsLoaded());
  const std::shared_ptr<const Model> model = repository_.Find("a");
  loader_.reset();
  EXPECT_EQ(model->info().seeded->seed, 1);
}

TEST_F(ModelLoaderTest, CloseFinishesWhatIsUnderWayAndRefusesTheRest) {
  folder_.Put("a", "1");
  folder_.Put("b", "2");
  std::promise<void> begun;
  std::promise<void> may_end;
  load_ = [&](const ModelSource& source, WeightsDtype dtype) {
    begun.set_value();
    may_end.get_future().wait();
    return LoadFakeModel(source, dtype);
  };
  Start();
  begun.get_future().wait();
  std::promise<absl::Status> waiting;
  loader_->Reload({.is_cancelled = [] { return false; }},
                  [&](const absl::Status& status) { waiting.set_value(status); });
  loader_->Close();
  const auto is_draining = StatusIs(absl::StatusCode::kUnavailable, "the server is draining");
  EXPECT_THAT(waiting.get_future().get(), is_draining);
  EXPECT_THAT(Call(&ModelLoader::Reload, {}), is_draining);
  may_end.set_value();
  loader_.reset();
  EXPECT_EQ(ServingSeed("a"), 1);
  EXPECT_EQ(ServingSeed("b"), 0) << "not begun";
  EXPECT_NE(loaded_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST_F(ModelLoaderTest, VerifyComparesWithACopyInF32) {
  folder_.Put("a", "1");
  weights_dtype_ = WeightsDtype::kBf16;
  Start();
  ASSERT_TRUE(IsLoaded());
  const auto verified = Verify("a");
  ASSERT_THAT(verified, IsOk());
  EXPECT_EQ(verified->info.weights_dtype, WeightsDtype::kBf16);
  EXPECT_EQ(verified->num_tokens, 64);
  ASSERT_EQ(verified->differences.size(), 1u);
  const ModelDifference& layer = verified->differences.front();
  EXPECT_EQ(layer.of, "layer 0");
  EXPECT_GT(layer.relative_l2, 1e-4);
  EXPECT_LT(layer.relative_l2, 1e-2);
  EXPECT_GT(layer.max_abs_error, 0);
  EXPECT_EQ(layer.top1_agreement, std::nullopt);
  EXPECT_EQ(repository_.Find("a")->info().weights_dtype, WeightsDtype::kBf16);
}

TEST_F(ModelLoaderTest, VerifyKnowsThatF32IsExact) {
  folder_.Put("a", "1");
  Start();
  ASSERT_TRUE(IsLoaded());
  const auto verified = Verify("a");
  ASSERT_THAT(verified, IsOk());
  EXPECT_EQ(verified->info.weights_dtype, WeightsDtype::kF32);
  EXPECT_TRUE(verified->differences.empty());
}

TEST_F(ModelLoaderTest, VerifyRefusesWhatItCannotCompare) {
  folder_.Put("a", "1");
  Start();
  ASSERT_TRUE(IsLoaded());
  EXPECT_THAT(Verify("b"), StatusIs(absl::StatusCode::kNotFound,
                                    "model: expected one that serves, found \"b\""));
  folder_.Put("a", "22");
  EXPECT_THAT(Verify("a"), StatusIs(absl::StatusCode::kAborted,
                                    "model a version 1: its files have changed since it was "
                                    "loaded"));
}

}  // namespace
}  // namespace attention
