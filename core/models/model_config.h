// config.json of a checkpoint.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/tile/tile_kernels.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// A JSON object, read key by key. A value of the wrong kind or out of range is remembered as
/// status(), which names file, key, expected and found, and the default is answered: a reader may
/// go on to the end and look once. A key that is null counts as absent. Of several keys the first
/// that is there counts.
class ModelConfig {
 public:
  using Keys = std::initializer_list<const char*>;

  /// INVALID_ARGUMENT for a file that is not a JSON object, NOT_FOUND without file.
  static absl::StatusOr<ModelConfig> Load(const std::string& path);
  /// `source` names it in errors.
  static absl::StatusOr<ModelConfig> Parse(const std::string& text, const std::string& source);
  ModelConfig(ModelConfig&&) noexcept;
  ~ModelConfig();

  const absl::Status& status() const { return status_; }
  /// Remembers an error of this file, unless there is one already.
  void Refuse(const std::string& key, const std::string& expected, const std::string& found);

  /// The same of an object within it.
  void Adopt(const absl::Status& status) { status_.Update(status); }

  bool Has(const char* key) const;
  /// Present and null.
  bool IsNull(const char* key) const;
  /// 1 to 2^24; without a default an absent one is an error.
  int64_t Size(Keys keys, std::optional<int64_t> fallback = std::nullopt);
  /// 1 to 4096: layers are described before the first of their tensors is looked for.
  int64_t NumLayers(Keys keys, int64_t fallback);
  /// As Size, but 0 too.
  int64_t Count(Keys keys, int64_t fallback);
  double Number(Keys keys, double fallback);
  bool Flag(Keys keys, bool fallback);
  std::string Text(Keys keys, const std::string& fallback);
  std::vector<double> Numbers(const char* key);
  std::vector<std::string> Texts(const char* key);
  /// An object within this one, with the same error; empty when absent.
  ModelConfig Object(Keys keys);
  /// By transformers' names of activations.
  Activation ActivationOf(Keys keys, const std::string& fallback);
  /// Refuses any value but `only`.
  void Expect(const char* key, bool only);

 private:
  ModelConfig(std::unique_ptr<nlohmann::json> json, std::string source);
  const nlohmann::json* Find(Keys keys, const char** found) const;
  int64_t SizeUpTo(int64_t max, Keys keys, std::optional<int64_t> fallback);

  std::unique_ptr<nlohmann::json> json_;
  std::string source_;
  absl::Status status_;
};

}  // namespace attention
