#include "core/models/model_config.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/models/json_file.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

std::string TextOf(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  return Parse(text, path);
}

absl::StatusOr<ModelConfig> ModelConfig::Parse(const std::string& text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseJsonObject(text, source));
  return ModelConfig(std::make_unique<json>(std::move(parsed)), source);
}

ModelConfig::ModelConfig(std::unique_ptr<json> parsed, std::string source)
    : json_(std::move(parsed)), source_(std::move(source)) {}
ModelConfig::ModelConfig(ModelConfig&&) noexcept = default;
ModelConfig::~ModelConfig() = default;

void ModelConfig::Refuse(const std::string& key, const std::string& expected,
                         const std::string& found) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(source_, ": ", key, ": expected ", expected, ", found ", found));
  }
}

const json* ModelConfig::Find(Keys keys, const char** found) const {
  for (const char* key : keys) {
    const auto member = json_->find(key);
    if (member != json_->end() && !member->is_null()) {
      *found = key;
      return &*member;
    }
  }
  return nullptr;
}

bool ModelConfig::Has(const char* key) const { return Find({key}, &key) != nullptr; }

bool ModelConfig::IsNull(const char* key) const {
  const auto member = json_->find(key);
  return member != json_->end() && member->is_null();
}

int64_t ModelConfig::Size(Keys keys, std::optional<int64_t> fallback) {
  return SizeUpTo(kMaxSize, keys, fallback);
}

int64_t ModelConfig::NumLayers(Keys keys, int64_t fallback) {
  return SizeUpTo(kMaxLayers, keys, fallback);
}

int64_t ModelConfig::SizeUpTo(int64_t max, Keys keys, std::optional<int64_t> fallback) {
  const char* key = *keys.begin();
  const json* value = Find(keys, &key);
  if (value == nullptr && fallback.has_value()) {
    return *fallback;
  }
  const std::string expected = absl::StrCat("a whole number of 1 to ", max);
  if (value == nullptr) {
    Refuse(key, expected, "none");
    return 1;
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    Refuse(key, expected, TextOf(*value));
    return 1;
  }
  return value->get<int64_t>();
}

int64_t ModelConfig::Count(Keys keys, int64_t fallback) {
  const char* key = nullptr;
  const json* value = Find(keys, &key);
  const bool is_zero = value != nullptr && value->is_number_unsigned() && *value == 0u;
  return is_zero ? 0 : Size(keys, fallback);
}

double ModelConfig::Number(Keys keys, double fallback) {
  const char* key = nullptr;
  const json* value = Find(keys, &key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    Refuse(key, "a number", TextOf(*value));
    return fallback;
  }
  return value->get<double>();
}

bool ModelConfig::Flag(Keys keys, bool fallback) {
  const char* key = nullptr;
  const json* value = Find(keys, &key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    Refuse(key, "true or false", TextOf(*value));
    return fallback;
  }
  return value->get<bool>();
}

std::string ModelConfig::Text(Keys keys, const std::string& fallback) {
  const char* key = nullptr;
  const json* value = Find(keys, &key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_string()) {
    Refuse(key, "a text", TextOf(*value));
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<double> ModelConfig::Numbers(const char* key) {
  const json* value = Find({key}, &key);
  std::vector<double> numbers;
  if (value == nullptr) {
    return numbers;
  }
  bool is_good = value->is_array();
  for (size_t i = 0; is_good && i < value->size(); ++i) {
    is_good = (*value)[i].is_number();
    numbers.push_back(is_good ? (*value)[i].get<double>() : 0);
  }
  if (!is_good) {
    Refuse(key, "a list of numbers", TextOf(*value));
  }
  return numbers;
}

std::vector<std::string> ModelConfig::Texts(const char* key) {
  const json* value = Find({key}, &key);
  std::vector<std::string> texts;
  if (value == nullptr) {
    return texts;
  }
  bool is_good = value->is_array();
  for (size_t i = 0; is_good && i < value->size(); ++i) {
    is_good = (*value)[i].is_string();
    texts.push_back(is_good ? (*value)[i].get<std::string>() : "");
  }
  if (!is_good) {
    Refuse(key, "a list of texts", TextOf(*value));
  }
  return texts;
}

ModelConfig ModelConfig::Object(Keys keys) {
  const char* key = *keys.begin();
  const json* value = Find(keys, &key);
  if (value != nullptr && !value->is_object()) {
    Refuse(key, "an object", TextOf(*value));
    value = nullptr;
  }
  const json empty = json::object();
  ModelConfig object(std::make_unique<json>(value == nullptr ? empty : *value),
                     absl::StrCat(source_, ": ", key));
  object.status_ = status_;
  return object;
}

Activation ModelConfig::ActivationOf(Keys keys, const std::string& fallback) {
  struct Named {
    const char* name;
    Activation activation;
  };
  static constexpr Named kActivations[] = {
      {"relu", Activation::kRelu},          {"gelu", Activation::kGelu},
      {"gelu_python", Activation::kGelu},   {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
  };
  const std::string name = Text(keys, fallback);
  for (const Named& known : kActivations) {
    if (name == known.name) {
      return known.activation;
    }
  }
  Refuse(*keys.begin(),
         "relu, gelu, gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, silu or swish",
         absl::StrCat("\"", name, "\""));
  return Activation::kNone;
}

void ModelConfig::Expect(const char* key, bool only) {
  if (Flag({key}, only) != only) {
    Refuse(key, only ? "true" : "false", only ? "false" : "true");
  }
}

}  // namespace attention
