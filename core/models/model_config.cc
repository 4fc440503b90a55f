#include "core/models/model_config.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
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

constexpr size_t kMaxFoundBytes = 60;

std::string TextOf(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string RangeText(ModelConfig::NumberRange range) {
  return absl::StrCat("a number of ", range.least, " to ", range.most);
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
    status_ = absl::InvalidArgumentError(absl::StrCat(source_, ": ", key, ": expected ", expected,
                                                      ", found ", found.substr(0, kMaxFoundBytes),
                                                      found.size() > kMaxFoundBytes ? "..." : ""));
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

int64_t ModelConfig::WholeNumber(Keys keys, Range range, std::optional<int64_t> fallback) {
  const char* key = *keys.begin();
  const json* value = Find(keys, &key);
  std::string found = value == nullptr ? "none" : TextOf(*value);
  if (value == nullptr && fallback.has_value()) {
    if (*fallback >= range.first && *fallback <= range.last) {
      return *fallback;
    }
    found = absl::StrCat("none, which stands for ", *fallback);
  }
  // The parser gives numbers of 2^63 and more as unsigned.
  const bool is_whole = value != nullptr && value->is_number_integer() &&
                        (!value->is_number_unsigned() ||
                         value->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
  const int64_t number = is_whole ? value->get<int64_t>() : range.first;
  if (!is_whole || number < range.first || number > range.last) {
    Refuse(key, absl::StrCat("a whole number of ", range.first, " to ", range.last), found);
    return range.first;
  }
  return number;
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
    const char* key = *keys.begin();
    Find(keys, &key);
    Refuse(key, absl::StrCat("a divisor of ", whole), absl::StrCat(divisor));
    return 1;
  }
  return divisor;
}

double ModelConfig::Number(Keys keys, NumberRange range, double fallback) {
  const char* key = nullptr;
  const json* value = Find(keys, &key);
  if (value == nullptr) {
    return fallback;
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= range.least && number <= range.most)) {
    Refuse(key, RangeText(range), TextOf(*value));
    return fallback;
  }
  return number;
}

float ModelConfig::Epsilon(Keys keys, double fallback) {
  return static_cast<float>(Number(keys, {1e-30, 1}, fallback));
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

std::vector<double> ModelConfig::Numbers(const char* key, int64_t count, NumberRange range) {
  const json* value = Find({key}, &key);
  std::vector<double> numbers;
  bool is_good = value != nullptr && value->is_array() && std::ssize(*value) == count;
  for (int64_t i = 0; is_good && i < count; ++i) {
    const json& item = (*value)[i];
    numbers.push_back(item.is_number() ? item.get<double>() : std::nan(""));
    is_good = numbers.back() >= range.least && numbers.back() <= range.most;
  }
  if (!is_good) {
    Refuse(key, absl::StrCat("a list of ", count, ", each ", RangeText(range)),
           value == nullptr ? "none" : TextOf(*value));
    numbers.assign(count, range.least);
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
