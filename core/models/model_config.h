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
  /// Remembers an error of this file, unless there is one already. What was found is cut short.
  void Refuse(const std::string& key, const std::string& expected, const std::string& found);

  /// The same of an object within it.
  void Adopt(const absl::Status& status) { status_.Update(status); }

  bool Has(const char* key) const;
  /// Present and null.
  bool IsNull(const char* key) const;
  struct Range {
    int64_t first = 0;
    int64_t last = 0;
  };
  /// A whole number in `range`, as the default has to be. Without a default an absent one is an
  /// error.
  int64_t WholeNumber(Keys keys, Range range, std::optional<int64_t> fallback = std::nullopt);
  /// 1 to 2^24.
  int64_t Size(Keys keys, std::optional<int64_t> fallback = std::nullopt);
  /// 1 to 4096: layers are described before the first of their tensors is looked for.
  int64_t NumLayers(Keys keys, int64_t fallback);
  /// 0 to 2^24.
  int64_t Count(Keys keys, int64_t fallback);
  /// 1 to 2^24, of which `whole` is a multiple.
  int64_t Divisor(Keys keys, int64_t whole, std::optional<int64_t> fallback = std::nullopt);

  struct NumberRange {
    double least = 0;
    double most = 0;
  };
  /// Of scales, factors and bounds of logits: products of a few stay finite as floats, and none
  /// vanishes.
  static constexpr NumberRange kScales = {1e-6, 1e6};
  double Number(Keys keys, NumberRange range, double fallback);
  /// 1e-30 to 1: norms of queries and keys take no 0.
  float Epsilon(Keys keys, double fallback);
  bool Flag(Keys keys, bool fallback);
  std::string Text(Keys keys, const std::string& fallback);
  /// `count` numbers in `range`; all of them range.least after an error.
  std::vector<double> Numbers(const char* key, int64_t count, NumberRange range);
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

  std::unique_ptr<nlohmann::json> json_;
  std::string source_;
  absl::Status status_;
};

}  // namespace attention
