// What others see of the models of a folder.
#include <filesystem>

#include "tests/server/models/catalog_fixture.h"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::SizeIs;

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

}  // namespace
}  // namespace attention
