// Which versions serve, after what happened to the folder.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "core/models/seeded_model.h"
#include "tests/server/models/catalog_fixture.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(ModelCatalogTest, ServesTheHighestVersionOfEachName) {
  folder_.Put("a", "7");
  folder_.Put("b/2", "8");
  folder_.Put("b/10", "9");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=7", "b:10=9"));
  EXPECT_EQ(StateOf(catalog, "b", 10).phase, ModelPhase::kReady);
  EXPECT_TRUE(StateOf(catalog, "b", 10).is_serving);
  EXPECT_EQ(StateOf(catalog, "b", 10).read_bytes, 1000000);
  EXPECT_EQ(StateOf(catalog, "b", 2).phase, ModelPhase::kUnloaded);
  EXPECT_EQ(health_.IsServing("model/a"), true);
  EXPECT_EQ(health_.IsServing("model/b"), true);
}

TEST_F(ModelCatalogTest, AVersionThatCannotBePublishedDoesNotCountAsServing) {
  folder_.Put("a", "7");
  ServingEnvironment environment = environment_;
  environment.share =
      [tries = 0](std::unique_ptr<Model> model) mutable -> std::shared_ptr<const Model> {
    return ++tries == 1 ? throw std::bad_alloc() : std::move(model);
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  EXPECT_THROW(catalog.Refresh(Occasion::kRequest).IgnoreError(), std::bad_alloc);
  EXPECT_FALSE(StateOf(catalog, "a", 1).is_serving);
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=7")) << "the poll tries again";
}

TEST_F(ModelCatalogTest, ServesAllVersionsOrThoseThatAreNamed) {
  for (const char* place : {"a/1", "a/2", "a/3"}) {
    folder_.Put(place, "5");
  }
  {
    ModelCatalog all = MakeCatalog(Policies("all"));
    EXPECT_THAT(all.Refresh(Occasion::kRequest), IsOk());
    EXPECT_THAT(Serving(), ElementsAre("a:1=5", "a:2=5", "a:3=5"));
  }
  repository_.Withdraw("a", 1);
  repository_.Withdraw("a", 2);
  repository_.Withdraw("a", 3);
  ModelCatalog some = MakeCatalog(Policies("a=1,3,4"));
  EXPECT_THAT(some.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=5", "a:3=5"));
  EXPECT_THAT(
      StateOf(some, "a", 4).error,
      StatusIs(absl::StatusCode::kNotFound,
               Eq(folder_.path() + "/a: expected version 4 (--model-versions), found 1, 2, 3")));
}

TEST_F(ModelCatalogTest, ABadModelFailsForItselfAlone) {
  folder_.Put("bad", "none");
  folder_.Put("good", "1");
  std::filesystem::create_directory(folder_.path() + "/empty");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("good:1=1"));
  EXPECT_EQ(StateOf(catalog, "bad", 1).phase, ModelPhase::kFailed);
  EXPECT_THAT(StateOf(catalog, "bad", 1).error, StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("expected a seed, found none")));
  EXPECT_THAT(StateOf(catalog, "empty", 0).error,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found nothing")));
  EXPECT_EQ(health_.IsServing("model/bad"), false);
}

TEST_F(ModelCatalogTest, AllModelsServeWhenEachFoundAtTheStartHasServed) {
  folder_.Put("a", "1");
  folder_.Put("bad", "none");
  folder_.Put("worse", "none");
  std::filesystem::create_directory(folder_.path() + "/empty");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Discover(), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), false);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), false);
  folder_.Put("bad", "2");
  EXPECT_THAT(catalog.Load("bad", std::nullopt), IsOk());
  EXPECT_THAT(catalog.Unload("worse", std::nullopt), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), false) << "one is left";
  std::filesystem::remove(folder_.path() + "/empty");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), true);

  folder_.Put("late", "none");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(catalog.Unload("a", std::nullopt), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), true) << "what comes or goes later changes nothing";
}

TEST_F(ModelCatalogTest, OnlyRequiredModelsKeepTheServerOutOfService) {
  folder_.Put("a", "1");
  folder_.Put("bad", "none");
  ModelCatalog catalog = MakeCatalog(std::set<std::string>{"a", "late", "demo"});
  EXPECT_THAT(catalog.Discover(), IsOk());
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), false) << "late has not served";
  folder_.Put("late", "1");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), true) << "bad is not required";
}

TEST_F(ModelCatalogTest, ARequiredModelThatDoesNotExistHasAState) {
  folder_.Put("a", "1");
  folder_.Put("z", "1");
  ModelCatalog catalog = MakeCatalog(std::set<std::string>{"a", "late", "demo"});
  EXPECT_THAT(catalog.Discover(), IsOk());
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  ASSERT_THAT(catalog.States(), SizeIs(3));
  const ModelState missing = catalog.States()[1];
  EXPECT_EQ(missing.name, "late");
  EXPECT_EQ(missing.version, 0);
  EXPECT_EQ(missing.phase, ModelPhase::kFailed);
  EXPECT_THAT(missing.error, StatusIs(absl::StatusCode::kNotFound,
                                      Eq("--required-models: expected a name of " + folder_.path() +
                                         ", found late, which does not exist")));
  folder_.Put("late", "1");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(StateOf(catalog, "late", 1).phase, ModelPhase::kReady);
  EXPECT_THAT(catalog.States(), SizeIs(3));
  folder_.Remove("late");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(catalog.States(), SizeIs(2)) << "it has served";
}

TEST_F(ModelCatalogTest, AVersionThatIsNoLongerInMemoryTakesNone) {
  folder_.Put("a", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  std::shared_ptr<const Model> used = repository_.Find("a");
  const int64_t bytes = used->info().weights_bytes;
  EXPECT_EQ(StateOf(catalog, "a", 1).weights_bytes, bytes);
  EXPECT_THAT(catalog.Unload("a", std::nullopt), IsOk());
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kUnloading);
  EXPECT_EQ(StateOf(catalog, "a", 1).weights_bytes, bytes);
  used.reset();
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kUnloaded);
  EXPECT_EQ(StateOf(catalog, "a", 1).weights_bytes, 0);
  EXPECT_EQ(StateOf(catalog, "a", 1).read_bytes, 1000000) << "what was read stays known";
}

TEST_F(ModelCatalogTest, WithoutRequiredModelsEachIsTriedBeforeTheServerIsInService) {
  folder_.Put("a", "1");
  folder_.Put("bad", "none");
  ModelCatalog catalog = MakeCatalog(std::set<std::string>());
  EXPECT_THAT(catalog.Discover(), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), false);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), true);
}

TEST_F(ModelCatalogTest, NoModelsAllServe) {
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Discover(), IsOk());
  EXPECT_EQ(health_.IsServing(kAllModels), true);
}

TEST_F(ModelCatalogTest, WhatIsUnchangedIsNotLoadedAgain) {
  folder_.Put("a", "1");
  folder_.Put("bad", "none");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(loads_, 2);
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_EQ(loads_, 2) << "nor is what failed tried again";
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(loads_, 3) << "unless somebody asks";
}

TEST_F(ModelCatalogTest, ANewVersionTakesThePlaceOfTheOld) {
  folder_.Put("a/1", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Put("a/2", "2");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:2=2"));
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kUnloaded);
}

TEST_F(ModelCatalogTest, AChangedVersionTakesItsOwnPlace) {
  folder_.Put("a", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Put("a", "2");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=2"));
}

TEST_F(ModelCatalogTest, ABrokenNewVersionKeepsTheOld) {
  folder_.Put("a/1", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Put("a/2", "broken");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1"));
  EXPECT_EQ(StateOf(catalog, "a", 2).phase, ModelPhase::kFailed);
  EXPECT_EQ(health_.IsServing("model/a"), true);
  folder_.Put("a/2", "2");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:2=2")) << "once it is mended";
}

TEST_F(ModelCatalogTest, ABrokenChangeKeepsWhatWasLoaded) {
  folder_.Put("a", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Put("a", "broken");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1"));
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kFailed);
  EXPECT_TRUE(StateOf(catalog, "a", 1).is_serving);
  std::filesystem::remove(folder_.path() + "/a/config.json");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1")) << "even when its folder is none any more";
}

TEST_F(ModelCatalogTest, ABrokenLatestVersionMakesWayForAnOlderOne) {
  folder_.Put("a/1", "1");
  folder_.Put("a/2", "2");
  folder_.Put("a/3", "broken");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:2=2"));
}

TEST_F(ModelCatalogTest, WhatLeavesTheFolderIsWithdrawn) {
  folder_.Put("a", "1");
  folder_.Put("b/1", "2");
  folder_.Put("b/2", "3");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Remove("a");
  folder_.Remove("b/2");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("b:1=2"));
  EXPECT_EQ(health_.IsServing("model/a"), false);
  EXPECT_THAT(catalog.States(), SizeIs(1));
}

TEST_F(ModelCatalogTest, APollWaitsUntilTheFilesStayTheSame) {
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Put("a", "1");
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), IsEmpty()) << "it may be half written";
  folder_.Put("a", "22");
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), IsEmpty()) << "it was";
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=22"));
  folder_.Remove("a");
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=22")) << "it may be about to be replaced";
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
}

TEST_F(ModelCatalogTest, FilesThatChangeWhileTheyAreReadAreReadAgain) {
  folder_.Put("a", "1");
  ServingEnvironment environment = environment_;
  environment.load = [this](const ModelSource& source, WeightsDtype dtype) {
    auto loaded = LoadFakeModel(source, dtype);
    if (++loads_ == 1) {
      folder_.Put("a", "22");
    }
    return loaded;
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
  EXPECT_THAT(StateOf(catalog, "a", 1).error,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("changed while they were read")));
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=22"));
}

TEST_F(ModelCatalogTest, AFolderThatIsReadAnewIsNeverInMemoryTwice) {
  constexpr size_t kModels = 5;
  size_t alive = 0;
  size_t most_alive = 0;
  std::vector<const Model*> unused;
  int seed = 0;
  ServingEnvironment environment = environment_;
  environment.share = [&](std::unique_ptr<Model> model) {
    most_alive = std::max(most_alive, ++alive);
    return std::shared_ptr<const Model>(model.release(),
                                        [&](const Model* old) { unused.push_back(old); });
  };
  environment.free_unused = [&] {
    for (const Model* model : std::exchange(unused, {})) {
      delete model;
      --alive;
    }
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  for (const char* version : {"1", "1", "2", "3", "3"}) {
    for (size_t i = 0; i < kModels; ++i) {
      folder_.Put(absl::StrCat("model", i, "/", version), absl::StrCat(++seed));
    }
    EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
    EXPECT_EQ(alive, kModels);
  }
  EXPECT_EQ(most_alive, kModels + 1) << "the new one beside the one that it replaces";
  for (size_t i = 0; i < kModels; ++i) {
    folder_.Remove(absl::StrCat("model", i));
  }
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  environment.free_unused();
  EXPECT_EQ(alive, 0u);
}

TEST_F(ModelCatalogTest, AFolderCannotTakeTheServersNames) {
  folder_.Put("demo", "1");
  ASSERT_THAT(repository_.AddSeeded(DemoModelSpec()), IsOk());
  health_.Set("model/demo", true);
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(StateOf(catalog, "demo", 0).error,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("expected another name")));
  EXPECT_EQ(repository_.Find("demo")->info().d_model, 512);
  EXPECT_EQ(health_.IsServing("model/demo"), true);
}

TEST_F(ModelCatalogTest, AFolderWhoseDeviceIsGoneChangesNothingUntilARequest) {
  std::string unmounted = "/dev/shm/attend-XXXXXX";
  if (mkdtemp(unmounted.data()) == nullptr) {
    GTEST_SKIP() << "no second device";
  }
  const absl::Cleanup remove = [&] { std::filesystem::remove_all(unmounted); };
  folder_.Put("a", "7");
  const TempFolder place;
  const std::string link = place.path() + "/models";
  std::filesystem::create_symlink(folder_.path(), link);
  ModelCatalog catalog({.path = link}, environment_, health_);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  std::filesystem::remove(link);
  std::filesystem::create_symlink(unmounted, link);
  for (int poll = 0; poll < 3; ++poll) {
    EXPECT_THAT(catalog.Refresh(Occasion::kPoll),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("found an empty folder of another device")));
    EXPECT_THAT(Serving(), ElementsAre("a:1=7"));
  }
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
}

TEST_F(ModelCatalogTest, AFolderThatCannotBeReadChangesNothing) {
  folder_.Put("a", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  std::filesystem::rename(folder_.path(), folder_.path() + "2");
  EXPECT_THAT(catalog.Refresh(Occasion::kPoll),
              StatusIs(absl::StatusCode::kNotFound, StartsWith(folder_.path())));
  EXPECT_THAT(Serving(), ElementsAre("a:1=1"));
  std::filesystem::rename(folder_.path() + "2", folder_.path());
}

TEST_F(ModelCatalogTest, ThrowingLoadersAreFailures) {
  folder_.Put("a", "1");
  folder_.Put("b", "1");
  ServingEnvironment environment = environment_;
  environment.load = [](const ModelSource& source, WeightsDtype) -> absl::StatusOr<LoadedModel> {
    if (source.name == "a") {
      throw std::bad_alloc();
    }
    throw std::runtime_error("oh");
  };
  ModelCatalog catalog({.path = folder_.path()}, environment, health_);
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(StateOf(catalog, "a", 1).error,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory")));
  EXPECT_THAT(StateOf(catalog, "b", 1).error,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/b: oh")));
}

TEST_F(ModelCatalogTest, LoadsNothingMoreWhenItIsToldToStop) {
  folder_.Put("a", "1");
  go_on_ = false;
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_EQ(loads_, 0);
}

TEST(DescribeLoadTest, TellsSizeTimeSpeedAndWhatIsNotUsed) {
  ReadyModel ready;
  ready.loaded.model = *Model::CreateSeeded({.name = "a", .d_model = 32, .num_heads = 2});
  ready.loaded.read_bytes = 300'000'000;
  ready.load_time = absl::Seconds(2);
  EXPECT_THAT(DescribeLoad(ready), AllOf(StartsWith("seeded, fp32 weights of "),
                                         HasSubstr("read 300.0 MB in 2.00 s (150 MB/s)")));
  ready.loaded.unused_tensors = {"x"};
  EXPECT_THAT(DescribeLoad(ready), ::testing::EndsWith("; 1 tensor is not used: x"));
  ready.loaded.unused_tensors = {"a", "b", "c", "d"};
  EXPECT_THAT(DescribeLoad(ready), ::testing::EndsWith("; 4 tensors are not used: a, b, c, ..."));
}

}  // namespace
}  // namespace attention
