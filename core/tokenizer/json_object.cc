#include "core/tokenizer/json_object.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using nlohmann::json;

constexpr int kMaxNestedSequences = 8;
constexpr size_t kMaxSteps = 16;  // each may hold a copy of the text
constexpr size_t kMaxShownBytes = 60;

absl::Status WrongAt(const std::string& place, const std::string& expected, const json* found) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": expected ", expected, ", found ", Describe(found)));
}

absl::Status AppendSteps(const JsonObject& step, const char* list, int depth,
                         std::vector<JsonObject>& steps) {
  const json* type = step.Find("type");
  if (type == nullptr || *type != "Sequence") {
    if (steps.size() == kMaxSteps) {
      return step.Wrong("type", absl::StrCat("at most ", kMaxSteps, " steps"));
    }
    steps.push_back(step);
    return absl::OkStatus();
  }
  if (depth == kMaxNestedSequences) {
    return step.Wrong("type", absl::StrCat("at most ", kMaxNestedSequences, " nested Sequences"));
  }
  ASSIGN_OR_RETURN(const std::vector<JsonObject> inner_steps, step.Objects(list));
  for (const JsonObject& inner : inner_steps) {
    RETURN_IF_ERROR(AppendSteps(inner, list, depth + 1, steps));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Describe(const json* value) {
  if (value == nullptr) {
    return "nothing";
  }
  if (value->is_object()) {
    return "an object";
  }
  if (value->is_array()) {
    return absl::StrCat("a list of ", value->size());
  }
  std::string text = value->dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kMaxShownBytes) {
    text = text.substr(0, kMaxShownBytes) + "...";
  }
  return text;
}

absl::StatusOr<JsonObject> JsonObject::Create(const json& value, const std::string& place) {
  if (!value.is_object()) {
    return WrongAt(place, "an object", &value);
  }
  return JsonObject(value, place);
}

const json* JsonObject::Find(const char* member) const {
  const auto found = value_->find(member);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonObject::PlaceOf(const char* member) const {
  return place_.empty() ? member : absl::StrCat(place_, ".", member);
}

absl::Status JsonObject::Wrong(const char* member, const std::string& expected) const {
  const auto found = value_->find(member);
  return WrongAt(PlaceOf(member), expected, found == value_->end() ? nullptr : &*found);
}

absl::StatusOr<bool> JsonObject::Bool(const char* member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_boolean()) {
    return Wrong(member, "true or false");
  }
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonObject::String(const char* member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_string()) {
    return Wrong(member, "a string");
  }
  return value->get<std::string>();
}

absl::StatusOr<int32_t> JsonObject::Id(const char* member) const {
  const json* value = Find(member);
  return ParseId(value == nullptr ? json() : *value, PlaceOf(member));
}

absl::StatusOr<JsonObject> JsonObject::Object(const char* member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_object()) {
    return Wrong(member, "an object");
  }
  return JsonObject(*value, PlaceOf(member));
}

absl::StatusOr<const json*> JsonObject::List(const char* member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_array()) {
    return Wrong(member, "a list");
  }
  return value;
}

absl::StatusOr<std::vector<JsonObject>> JsonObject::Objects(const char* member) const {
  ASSIGN_OR_RETURN(const json* list, List(member));
  std::vector<JsonObject> objects;
  for (const json& value : *list) {
    ASSIGN_OR_RETURN(JsonObject object,
                     Create(value, absl::StrCat(PlaceOf(member), "[", objects.size(), "]")));
    objects.push_back(std::move(object));
  }
  return objects;
}

absl::StatusOr<bool> JsonObject::BoolOr(const char* member, bool otherwise) const {
  return Find(member) == nullptr ? otherwise : Bool(member);
}

absl::StatusOr<std::string> JsonObject::StringOr(const char* member,
                                                 const std::string& otherwise) const {
  return Find(member) == nullptr ? otherwise : String(member);
}

absl::StatusOr<int32_t> ParseId(const json& value, const std::string& place) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= uint64_t{kMaxTokenIds}) {
    return WrongAt(place, absl::StrCat("an id below ", kMaxTokenIds), &value);
  }
  return value.get<int32_t>();
}

absl::StatusOr<std::vector<JsonObject>> ParseSteps(const JsonObject& file, const char* component,
                                                   const char* list) {
  std::vector<JsonObject> steps;
  if (file.Find(component) != nullptr) {
    ASSIGN_OR_RETURN(const JsonObject first, file.Object(component));
    RETURN_IF_ERROR(AppendSteps(first, list, 0, steps));
  }
  return steps;
}

}  // namespace attention
