// Which versions serve, after what was asked.
#include <filesystem>

#include "tests/server/models/catalog_fixture.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ModelRequestTest = ModelCatalogTest;

TEST_F(ModelRequestTest, UnloadedModelsStaySoUntilTheyAreLoaded) {
  folder_.Put("a/1", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(catalog.Unload("a", std::nullopt), IsOk());
  EXPECT_THAT(catalog.Unload("a", std::nullopt), IsOk()) << "twice is as good as once";
  folder_.Put("a/2", "2");
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty()) << "later versions too";
  EXPECT_EQ(health_.IsServing("model/a"), false);
  EXPECT_THAT(catalog.Load("a", 1), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1")) << "but for one that is named";
  EXPECT_THAT(catalog.Load("a", std::nullopt), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:2=2")) << "the policy's again";
}

TEST_F(ModelRequestTest, AWrongNameStaysUnloadedToo) {
  std::filesystem::create_directory(folder_.path() + "/empty");
  ModelCatalog catalog = MakeCatalog();
  ASSERT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  ASSERT_EQ(StateOf(catalog, "empty", 0).phase, ModelPhase::kFailed);
  ASSERT_THAT(catalog.Unload("empty", std::nullopt), IsOk());
  ASSERT_THAT(catalog.Refresh(Occasion::kPoll), IsOk());
  EXPECT_EQ(StateOf(catalog, "empty", 0).phase, ModelPhase::kUnloaded);
  EXPECT_THAT(catalog.Load("empty", 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found nothing")));
  EXPECT_THAT(catalog.Load("empty", std::nullopt),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found nothing")));
}

TEST_F(ModelRequestTest, AnUnloadedVersionDoesNotMakeWayForAnOlderOne) {
  folder_.Put("a/1", "1");
  folder_.Put("a/2", "2");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(catalog.Load("a", 1), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1", "a:2=2"));
  EXPECT_THAT(catalog.Unload("a", 2), IsOk());
  EXPECT_THAT(Serving(), ElementsAre("a:1=1")) << "rolled back";
  EXPECT_THAT(catalog.Unload("a", 1), IsOk());
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  EXPECT_THAT(Serving(), IsEmpty());
}

TEST_F(ModelRequestTest, AVersionInUseIsUnloading) {
  folder_.Put("a", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  std::shared_ptr<const Model> in_use = repository_.Find("a");
  EXPECT_THAT(catalog.Unload("a", std::nullopt), IsOk());
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kUnloading);
  in_use.reset();
  EXPECT_EQ(StateOf(catalog, "a", 1).phase, ModelPhase::kUnloaded);
}

TEST_F(ModelRequestTest, RefusesNamesAndVersionsThatTheFolderDoesNotHave) {
  folder_.Put("a/1", "1");
  folder_.Put("a/3", "1");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Refresh(Occasion::kRequest), IsOk());
  for (const bool is_load : {true, false}) {
    const auto call = [&](const std::string& name, std::optional<int64_t> version) {
      return is_load ? catalog.Load(name, version) : catalog.Unload(name, version);
    };
    EXPECT_THAT(call("b", std::nullopt),
                StatusIs(absl::StatusCode::kNotFound,
                         Eq("model: expected one of " + folder_.path() + ": a, found \"b\"")));
    EXPECT_THAT(call("a", 2), StatusIs(absl::StatusCode::kNotFound,
                                       Eq("version: expected one of model a: 1, 3, found 2")));
    EXPECT_THAT(call("demo", std::nullopt),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         Eq("model: expected a name of " + folder_.path() +
                            ", found \"demo\", which is the server's own")));
  }
}

TEST_F(ModelRequestTest, LoadTellsWhyItFails) {
  folder_.Put("a/1", "1");
  folder_.Put("a/2", "broken");
  ModelCatalog catalog = MakeCatalog();
  EXPECT_THAT(catalog.Load("a", std::nullopt),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("/a/2/weights: expected a seed, found broken")));
  EXPECT_THAT(Serving(), ElementsAre("a:1=1")) << "all the same";
  EXPECT_THAT(catalog.Load("a", 1), IsOk());
  std::filesystem::remove(folder_.path() + "/a/2/config.json");
  EXPECT_THAT(catalog.Load("a", 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json")));
}

}  // namespace
}  // namespace attention
