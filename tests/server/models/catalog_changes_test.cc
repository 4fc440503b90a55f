// Which versions serve after the folder has changed.
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "tests/server/models/catalog_fixture.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

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

TEST_F(ModelCatalogTest, AVersionThatLeavesTheFolderServesUntilAnOlderOneDoes) {
  folder_.Put("m/1", "1");
  folder_.Put("m/2", "2");
  ModelCatalog catalog = MakeCatalog();
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  ASSERT_THAT(Serving(), ElementsAre("m:2=2"));
  folder_.Remove("m/2");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(serving_while_loading_, ElementsAre("m:2=2"));
  EXPECT_THAT(Serving(), ElementsAre("m:1=1"));
  EXPECT_EQ(catalog.States().size(), 1U);
  folder_.Put("m/2", "3");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("m:2=3"));
}

TEST_F(ModelCatalogTest, AVersionThatLeavesTheFolderEndsEvenIfTheOlderOneIsBroken) {
  folder_.Put("m/1", "broken");
  folder_.Put("m/2", "2");
  ModelCatalog catalog = MakeCatalog();
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Remove("m/2");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
}

TEST_F(ModelCatalogTest, AVersionThatLeavesTheFolderServesUntilANewerOneCanBeLoaded) {
  folder_.Put("m/1", "1");
  ModelCatalog catalog = MakeCatalog();
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Remove("m/1");
  folder_.Put("m/2", "broken");
  for (const Occasion occasion : {Occasion::kRequest, Occasion::kPoll, Occasion::kRequest}) {
    ASSERT_THAT(catalog.Refresh(occasion), IsOk());
    EXPECT_THAT(Serving(), ElementsAre("m:1=1"));
    EXPECT_EQ(StateOf(catalog, "m", 2).phase, ModelPhase::kFailed);
  }
  folder_.Put("m/2", "2");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("m:2=2"));
  EXPECT_THAT(catalog.States(), SizeIs(1));
}

TEST_F(ModelCatalogTest, AllVersionsThatLeaveTheFolderServeUntilANewerOneCanBeLoaded) {
  folder_.Put("m/1", "1");
  folder_.Put("m/2", "2");
  ModelCatalog catalog = MakeCatalog(Policies("all"));
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Remove("m/1");
  folder_.Remove("m/2");
  folder_.Put("m/3", "broken");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("m:1=1", "m:2=2"));
  folder_.Put("m/3", "3");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("m:3=3"));
}

TEST_F(ModelCatalogTest, AVersionThatLeavesTheFolderCanBeUnloaded) {
  folder_.Put("m/1", "1");
  ModelCatalog catalog = MakeCatalog();
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  folder_.Remove("m/1");
  folder_.Put("m/2", "broken");
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  ASSERT_THAT(catalog.Unload("m", std::nullopt), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
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

}  // namespace
}  // namespace attention
