// Reads the config.json of a checkpoint.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/tile/activation.h"
#include "core/runtime/json_object.h"
#include "nlohmann/json_fwd.hpp"

namespace attention {

/// A JsonObject whose first error is kept as status(): for a value of the wrong type or out of
/// range, the default is returned, so that a reader can read all keys and check status() once. Of
/// several keys, the first one that is present counts.
class ModelConfig {
 public:
  using Keys = std::initializer_list<const char*>;

  /// Reads a file. INVALID_ARGUMENT when it is not a JSON object, NOT_FOUND when it does not exist.
  static absl::StatusOr<ModelConfig> Load(const std::string& path);
  /// Reads a text. Errors name it `source`.
  static absl::StatusOr<ModelConfig> Parse(const std::string& text, const std::string& source);

  const absl::Status& status() const { return status_; }
  /// Keeps an error of this file as status(), unless there is one already. A long `found` is cut.
  void Refuse(const std::string& key, const std::string& expected, const std::string& found);

  /// Keeps the error of an object within this one.
  void Adopt(const absl::Status& status) { status_.Update(status); }

  bool Has(const char* key) const { return object_.Find(key) != nullptr; }
  /// Returns whether the key is present and null.
  bool IsNull(const char* key) const { return object_.IsNull(key); }
  /// Returns whether the key is present and neither {} nor [].
  bool HasMembers(const char* key) const;
  using Range = JsonObject::Range<int64_t>;
  /// Returns a whole number in `range`, which may be written with a point, as 4096.0; the default
  /// must be in `range` too. Without a default an absent key is an error.
  int64_t WholeNumber(Keys keys, Range range, std::optional<int64_t> fallback = std::nullopt);
  /// Returns a whole number from 1 to 2^24.
  int64_t Size(Keys keys, std::optional<int64_t> fallback = std::nullopt);
  /// Returns a whole number from 1 to 4096. It is bounded because all layers are described before
  /// the first tensor is looked up.
  int64_t NumLayers(Keys keys, int64_t fallback);
  /// Returns a whole number from 0 to 2^24.
  int64_t Count(Keys keys, int64_t fallback);
  /// Returns a whole number from 1 to 2^24 that divides `whole`.
  int64_t Divisor(Keys keys, int64_t whole, std::optional<int64_t> fallback = std::nullopt);

  using NumberRange = JsonObject::Range<double>;
  /// The range of scales, factors and bounds of logits. Products of a few such numbers are finite
  /// as floats, and are not 0.
  static constexpr NumberRange kScales = {1e-6, 1e6};
  /// Returns a number in `range`. Without a default an absent key is an error.
  double Number(Keys keys, NumberRange range, std::optional<double> fallback = std::nullopt);
  /// Returns a number from 1e-30 to 1. It is not 0, since the norms of queries and keys do not
  /// accept 0.
  float Epsilon(Keys keys, double fallback);
  /// Returns a flag. A null where the default is true is refused, since versions of transformers
  /// read it differently: most flags are false in 4 and an error in 5, `is_causal` is true in 4 and
  /// false in 5.
  bool Flag(Keys keys, bool fallback);
  std::string Text(Keys keys, const std::string& fallback);
  /// Returns `count` numbers in `range`; after an error all of them are range.first.
  std::vector<double> Numbers(const char* key, int64_t count, NumberRange range);
  std::vector<std::string> Texts(const char* key);
  /// Returns an object within this one, with the same status(); it is empty when the key is absent.
  ModelConfig Object(Keys keys);
  /// Returns an activation by its name in transformers.
  Activation ActivationOf(Keys keys, const std::string& fallback);
  /// Refuses any value but `only`.
  void Expect(const char* key, bool only);

 private:
  ModelConfig(std::shared_ptr<const nlohmann::json> json, JsonObject object)
      : json_(std::move(json)), object_(std::move(object)) {}
  /// Returns the first key that is present, or else the first.
  const char* KeyOf(Keys keys) const;
  /// Returns what was read; after an error, which it keeps, `fallback`.
  template <typename Value>
  Value Keep(absl::StatusOr<Value> read, Value fallback);

  std::shared_ptr<const nlohmann::json> json_;  // of the file, which `object_` borrows
  JsonObject object_;
  absl::Status status_;
};

}  // namespace attention
