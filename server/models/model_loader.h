// The thread that loads models while others serve.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/models/model_catalog.h"
#include "server/models/task_queue.h"
#include "server/models/verify_model.h"

namespace attention {

struct ModelLoaderOptions {
  ModelFolder folder = {};
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// The time between two checks of the folder; zero: the folder is checked on request only.
  absl::Duration poll_interval = absl::ZeroDuration();
  LoadFunction load = LoadModel;
};

/// The model of a request; without a version, as ModelCatalog says.
struct ModelRequest {
  std::string name;
  std::optional<int64_t> version = {};
  /// Returns whether the caller no longer waits. It is called before the work begins, and
  /// repeatedly during long work, by any thread.
  std::function<bool()> is_cancelled;
};

/// Returns the error of a call about the folder of models when the server has none.
absl::Status NoModelFolder();

/// One thread of low priority reads, checks, packs and warms up models, one after the other, and
/// frees unused ones. Loading therefore takes at most one core, and only time that serving leaves.
/// Thread-safe. Each `done` is called once, by that thread, or by the caller's thread when the
/// request is refused: RESOURCE_EXHAUSTED when too many wait, UNAVAILABLE after Close. A request
/// that its caller cancelled ends with CANCELLED, which the caller does not receive.
class ModelLoader {
 public:
  using Done = std::function<void(const absl::Status& status)>;
  using VerifyDone = std::function<void(absl::StatusOr<ModelVerification> result)>;

  /// The repository and the registry outlive the loader; published models may outlive it too.
  ModelLoader(const ModelLoaderOptions& options, ModelRepository& repository,
              HealthRegistry& health);
  /// Closes, and waits for the current task.
  ~ModelLoader();

  /// Calls ModelCatalog::Discover. Warns in the log when the folder has no models, or not those
  /// that the options name. REQUIRES: Start comes later.
  absl::Status Discover();
  /// Starts the thread. `on_loaded` is called once, when every model of the folder is loaded or has
  /// failed, unless Close came first; again if it throws. Called once.
  void Start(std::function<void()> on_loaded);
  /// Starts no other task. Does not wait.
  void Close();

  /// Call ModelCatalog's Load, Unload and Refresh on the thread.
  void Load(const ModelRequest& request, Done done);
  void Unload(const ModelRequest& request, Done done);
  void Reload(const ModelRequest& request, Done done);
  /// Compares the model with its f32 copy, which is loaded meanwhile. NOT_FOUND when the model does
  /// not serve; errors of ModelCatalog::SourceOf and of loading.
  void Verify(const ModelRequest& request, VerifyDone done);

  std::vector<ModelState> States() const { return catalog_.States(); }

 private:
  void Run(const std::function<void()>& on_loaded);
  void Refresh(Occasion occasion);
  void WarnOfMissingModels() const;
  absl::StatusOr<ModelVerification> VerifyNow(const ModelRequest& request);

  const ModelLoaderOptions options_;
  ModelRepository& repository_;
  /// Shared with the models, which are destroyed through it.
  const std::shared_ptr<TaskQueue> queue_;
  ModelCatalog catalog_;
  /// The loader's thread alone uses this.
  absl::Status last_error_;
  std::thread thread_;
};

}  // namespace attention
