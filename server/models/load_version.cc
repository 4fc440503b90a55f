#include "server/models/load_version.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/models/model_folder.h"
#include "core/runtime/contain.h"
#include "core/runtime/fixed_text.h"
#include "core/runtime/status_macros.h"
#include "server/models/probe_model.h"

namespace attention {
namespace {

constexpr size_t kUnusedTensorsNamed = 3;

std::string Megabytes(int64_t bytes) {
  return absl::StrCat(FixedText(static_cast<double>(bytes) / 1e6, 1), " MB");
}

}  // namespace

absl::StatusOr<ReadyModel> LoadVersion(const VersionToLoad& version, const LoadFunction& load) {
  const auto start = std::chrono::steady_clock::now();
  // A file may need more memory than there is, which must not end the server.
  ASSIGN_OR_RETURN(LoadedModel loaded,
                   Contain(absl::StrCat(version.source.folder, ": loading"),
                           [&] { return load(version.source, version.weights_dtype); }));
  const absl::Duration load_time = absl::FromChrono(std::chrono::steady_clock::now() - start);
  if (FingerprintOf(version.source.folder) != version.fingerprint) {
    return absl::AbortedError(
        absl::StrCat(version.source.folder, ": the files changed while they were read"));
  }
  RETURN_IF_ERROR(Contain(absl::StrCat(version.source.folder, ": the first computation"),
                          [&] { return WarmUp(*loaded.model); }));
  return ReadyModel{std::move(loaded), load_time};
}

std::string DescribeLoad(const ReadyModel& model) {
  const ModelInfo& info = model.loaded.model->info();
  const double seconds = absl::ToDoubleSeconds(model.load_time);
  const double megabytes = static_cast<double>(model.loaded.read_bytes) / 1e6;
  std::string text = absl::StrCat(
      info.model_type, ", ", std::string(Name(info.weights_dtype)), " weights of ",
      Megabytes(info.weights_bytes), "; read ", Megabytes(model.loaded.read_bytes), " in ",
      FixedText(seconds, 2), " s (", FixedText(megabytes / std::max(seconds, 1e-6), 0), " MB/s)");
  const std::vector<std::string>& unused = model.loaded.unused_tensors;
  if (!unused.empty()) {
    const auto end = unused.begin() + std::min(unused.size(), kUnusedTensorsNamed);
    absl::StrAppend(&text, "; ", unused.size(), unused.size() == 1 ? " tensor is" : " tensors are",
                    " not used: ", absl::StrJoin(unused.begin(), end, ", "),
                    end == unused.end() ? "" : ", ...");
  }
  return text;
}

}  // namespace attention
