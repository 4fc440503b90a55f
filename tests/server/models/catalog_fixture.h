// A catalog over a folder of fake models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/models/model_catalog.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"

namespace attention {

class ModelCatalogTest : public ::testing::Test {
 protected:
  ModelCatalog MakeCatalog() { return MakeCatalog(VersionPolicies()); }
  ModelCatalog MakeCatalog(const VersionPolicies& versions) {
    return {{.path = folder_.path(), .versions = versions, .reserved_names = {"demo"}},
            environment_,
            health_};
  }
  ModelCatalog MakeCatalog(const std::set<std::string>& required_names) {
    return {{.path = folder_.path(), .reserved_names = {"demo"}, .required_names = required_names},
            environment_,
            health_};
  }
  static VersionPolicies Policies(const std::string& text) {
    VersionPolicies policies;
    EXPECT_THAT(AddVersionPolicy(text, policies), IsOk());
    return policies;
  }

  /// "NAME:VERSION=SEED" of all that serve.
  std::vector<std::string> Serving() const {
    std::vector<std::string> serving;
    for (const auto& model : repository_.List()) {
      serving.push_back(
          absl::StrCat(model->name(), ":", model->info().version, "=", model->info().seeded->seed));
    }
    return serving;
  }
  static ModelState StateOf(const ModelCatalog& catalog, const std::string& name, int64_t version) {
    for (const ModelState& state : catalog.States()) {
      if (state.name == name && state.version == version) {
        return state;
      }
    }
    ADD_FAILURE() << "no state of " << name << " version " << version;
    return {};
  }

  const FakeModelFolder folder_;
  ModelRepository repository_;
  HealthRegistry health_;
  int loads_ = 0;
  std::vector<std::string> serving_while_loading_;  // at the last load
  bool go_on_ = true;
  const ServingEnvironment environment_ = {
      .repository = repository_,
      .load =
          [this](const ModelSource& source, WeightsDtype dtype) {
            ++loads_;
            serving_while_loading_ = Serving();
            return LoadFakeModel(source, dtype);
          },
      .yield = [this] { return go_on_; },
      .share = [](std::unique_ptr<Model> model) { return model; }};
};

}  // namespace attention
