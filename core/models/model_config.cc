#include "core/models/model_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/json_text.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

/// Returns a number such as 4096.0; absent for any other value.
std::optional<int64_t> WholeFloatIn(ModelConfig::Range range, const json* value) {
  const bool is_float = value != nullptr && value->is_number_float();
  const double number = is_float ? value->get<double>() : std::nan("");
  const bool is_whole = std::trunc(number) == number &&
                        number >= static_cast<double>(range.first) &&
                        number <= static_cast<double>(range.last);
  return is_whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  return Parse(text, path);
}

absl::StatusOr<ModelConfig> ModelConfig::Parse(const std::string& text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseJsonObject(text, source));
  auto file = std::make_shared<const json>(std::move(parsed));
  JsonObject object = JsonObject::OfFile(*file, source);
  return ModelConfig(std::move(file), std::move(object));
}

void ModelConfig::Refuse(const std::string& key, const std::string& expected,
                         const std::string& found) {
  status_.Update(object_.Wrong(key, expected, found));
}

bool ModelConfig::HasMembers(const char* key) const {
  const json* const value = object_.Find(key);
  return value != nullptr && !value->empty();
}

const char* ModelConfig::KeyOf(Keys keys) const {
  const auto* const found =
      std::find_if(keys.begin(), keys.end(), [this](const char* key) { return Has(key); });
  return found == keys.end() ? *keys.begin() : *found;
}

template <typename Value>
Value ModelConfig::Keep(absl::StatusOr<Value> read, Value fallback) {
  status_.Update(read.status());
  return read.ok() ? *std::move(read) : std::move(fallback);
}

int64_t ModelConfig::WholeNumber(Keys keys, Range range, std::optional<int64_t> fallback) {
  const char* const key = KeyOf(keys);
  if (const std::optional<int64_t> number = WholeFloatIn(range, object_.Find(key))) {
    return *number;
  }
  if (Has(key) || !fallback.has_value()) {
    return Keep(object_.WholeNumber(key, range), range.first);
  }
  if (*fallback < range.first || *fallback > range.last) {
    Refuse(key, absl::StrCat("a whole number of ", range.first, " to ", range.last),
           absl::StrCat("none, which stands for ", *fallback));
    return range.first;
  }
  return *fallback;
}

int64_t ModelConfig::Size(Keys keys, std::optional<int64_t> fallback) {
  return WholeNumber(keys, {1, kMaxSize}, fallback);
}

int64_t ModelConfig::NumLayers(Keys keys, int64_t fallback) {
  return WholeNumber(keys, {1, kMaxLayers}, fallback);
}

int64_t ModelConfig::Count(Keys keys, int64_t fallback) {
  return WholeNumber(keys, {0, kMaxSize}, fallback);
}

int64_t ModelConfig::Divisor(Keys keys, int64_t whole, std::optional<int64_t> fallback) {
  const int64_t divisor = Size(keys, fallback);
  if (whole % divisor != 0) {
    Refuse(KeyOf(keys), absl::StrCat("a divisor of ", whole), absl::StrCat(divisor));
    return 1;
  }
  return divisor;
}

double ModelConfig::Number(Keys keys, NumberRange range, std::optional<double> fallback) {
  const char* const key = KeyOf(keys);
  return Has(key) || !fallback.has_value()
             ? Keep(object_.Number(key, range), fallback.value_or(range.first))
             : *fallback;
}

float ModelConfig::Epsilon(Keys keys, double fallback) {
  return static_cast<float>(Number(keys, {1e-30, 1}, fallback));
}

bool ModelConfig::Flag(Keys keys, bool fallback) {
  const char* const key = KeyOf(keys);
  if (fallback && IsNull(key)) {
    Refuse(key, "true or false", "null");
  }
  return Keep(object_.BoolOr(key, fallback), fallback);
}

std::string ModelConfig::Text(Keys keys, const std::string& fallback) {
  return Keep(object_.StringOr(KeyOf(keys), fallback), fallback);
}

std::vector<double> ModelConfig::Numbers(const char* key, int64_t count, NumberRange range) {
  return Keep(object_.Numbers(key, count, range), std::vector<double>(count, range.first));
}

std::vector<std::string> ModelConfig::Texts(const char* key) {
  return Has(key) ? Keep(object_.Strings(key), {}) : std::vector<std::string>();
}

ModelConfig ModelConfig::Object(Keys keys) {
  static const json* const kNone = new json(json::object());
  const char* const key = KeyOf(keys);
  const JsonObject none = *JsonObject::Create(*kNone, object_.PlaceOf(key));
  ModelConfig object(json_, Has(key) ? Keep(object_.Object(key), none) : none);
  object.status_ = status_;
  return object;
}

Activation ModelConfig::ActivationOf(Keys keys, const std::string& fallback) {
  struct Named {
    const char* name;
    Activation activation;
  };
  static constexpr Named kActivations[] = {
      {"relu", Activation::kRelu},
      {"gelu", Activation::kGelu},
      {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_accurate", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
  };
  const std::string name = Text(keys, fallback);
  for (const Named& known : kActivations) {
    if (name == known.name) {
      return known.activation;
    }
  }
  const auto add_name = [](std::string* names, const Named& known) { *names += known.name; };
  Refuse(*keys.begin(), absl::StrCat("one of ", absl::StrJoin(kActivations, ", ", add_name)),
         absl::StrCat("\"", name, "\""));
  return Activation::kNone;
}

void ModelConfig::Expect(const char* key, bool only) {
  if (Flag({key}, only) != only) {
    Refuse(key, only ? "true" : "false", only ? "false" : "true");
  }
}

}  // namespace attention
