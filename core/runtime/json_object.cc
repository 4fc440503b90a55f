#include "core/runtime/json_object.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;

constexpr size_t kMaxShownBytes = 60;

std::string CutShown(const std::string& text) {
  return text.size() <= kMaxShownBytes ? text : text.substr(0, kMaxShownBytes) + "...";
}

std::string RangeText(JsonObject::Range<double> range) {
  return absl::StrCat("a number of ", range.first, " to ", range.last);
}

std::string RangeText(JsonObject::Range<int64_t> range) {
  return absl::StrCat("a whole number of ", range.first, " to ", range.last);
}

/// Returns a whole number in `range`; absent for any other value.
std::optional<int64_t> NumberIn(JsonObject::Range<int64_t> range, const json* value) {
  // The parser gives numbers of 2^63 and more as unsigned.
  const bool is_whole = value != nullptr && value->is_number_integer() &&
                        (!value->is_number_unsigned() ||
                         value->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
  const int64_t number = is_whole ? value->get<int64_t>() : range.first;
  return is_whole && number >= range.first && number <= range.last ? std::optional(number)
                                                                   : std::nullopt;
}

/// Returns a number in `range`; absent for any other value.
std::optional<double> NumberIn(JsonObject::Range<double> range, const json* value) {
  const double number =
      value != nullptr && value->is_number() ? value->get<double>() : std::nan("");
  return number >= range.first && number <= range.last ? std::optional(number) : std::nullopt;
}

/// Returns the numbers of `list`, the member of an object; an error about the first that is not in
/// `range`.
template <typename Value>
absl::StatusOr<std::vector<Value>> NumbersIn(JsonObject::Range<Value> range,
                                             const JsonObject& object, const std::string& member,
                                             const json& list) {
  std::vector<Value> numbers;
  for (const json& value : list) {
    const std::optional<Value> number = NumberIn(range, &value);
    if (!number.has_value()) {
      return object.Wrong(absl::StrCat(member, "[", numbers.size(), "]"), RangeText(range),
                          DescribeJson(&value));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

std::string DescribeJson(const json* value) {
  if (value == nullptr) {
    return "none";
  }
  if (value->is_object()) {
    return "an object";
  }
  if (value->is_array()) {
    return absl::StrCat("a list of ", value->size());
  }
  return CutShown(value->dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace));
}

absl::StatusOr<JsonObject> JsonObject::Create(const json& value, const std::string& place) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": expected an object, found ", DescribeJson(&value)));
  }
  return JsonObject(value, place.empty() ? "" : absl::StrCat(place, "."));
}

JsonObject JsonObject::OfFile(const json& value, const std::string& path) {
  return JsonObject(value, absl::StrCat(path, ": "));
}

const json* JsonObject::Find(const std::string& member) const {
  const auto found = value_->find(member);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::IsNull(const std::string& member) const {
  return value_->contains(member) && Find(member) == nullptr;
}

absl::Status JsonObject::Wrong(const std::string& member, const std::string& expected) const {
  const auto found = value_->find(member);
  return Wrong(member, expected, DescribeJson(found == value_->end() ? nullptr : &*found));
}

absl::Status JsonObject::Wrong(const std::string& member, const std::string& expected,
                               const std::string& found) const {
  return absl::InvalidArgumentError(
      absl::StrCat(PlaceOf(member), ": expected ", expected, ", found ", CutShown(found)));
}

absl::StatusOr<bool> JsonObject::Bool(const std::string& member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_boolean()) {
    return Wrong(member, "true or false");
  }
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonObject::String(const std::string& member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_string()) {
    return Wrong(member, "a string");
  }
  return value->get<std::string>();
}

absl::StatusOr<int64_t> JsonObject::WholeNumber(const std::string& member,
                                                Range<int64_t> range) const {
  const std::optional<int64_t> number = NumberIn(range, Find(member));
  return number.has_value() ? absl::StatusOr<int64_t>(*number) : Wrong(member, RangeText(range));
}

absl::StatusOr<double> JsonObject::Number(const std::string& member, Range<double> range) const {
  const std::optional<double> number = NumberIn(range, Find(member));
  return number.has_value() ? absl::StatusOr<double>(*number) : Wrong(member, RangeText(range));
}

absl::StatusOr<JsonObject> JsonObject::Object(const std::string& member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_object()) {
    return Wrong(member, "an object");
  }
  return Create(*value, PlaceOf(member));
}

absl::StatusOr<const json*> JsonObject::List(const std::string& member) const {
  const json* value = Find(member);
  if (value == nullptr || !value->is_array()) {
    return Wrong(member, "a list");
  }
  return value;
}

absl::StatusOr<std::vector<JsonObject>> JsonObject::Objects(const std::string& member) const {
  ASSIGN_OR_RETURN(const json* list, List(member));
  std::vector<JsonObject> objects;
  for (const json& value : *list) {
    ASSIGN_OR_RETURN(JsonObject object,
                     Create(value, absl::StrCat(PlaceOf(member), "[", objects.size(), "]")));
    objects.push_back(std::move(object));
  }
  return objects;
}

absl::StatusOr<std::vector<std::string>> JsonObject::Strings(const std::string& member) const {
  ASSIGN_OR_RETURN(const json* list, List(member));
  std::vector<std::string> strings;
  for (const json& value : *list) {
    if (!value.is_string()) {
      return Wrong(absl::StrCat(member, "[", strings.size(), "]"), "a string",
                   DescribeJson(&value));
    }
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::map<std::string, std::string>> JsonObject::StringsByName(
    const std::string& member) const {
  ASSIGN_OR_RETURN(const JsonObject object, Object(member));
  std::map<std::string, std::string> strings;
  for (const auto& [name, value] : object.value_->items()) {
    if (!value.is_string()) {
      return object.Wrong(name, "a string");
    }
    strings.emplace_hint(strings.end(), name, value.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::vector<int64_t>> JsonObject::WholeNumbers(const std::string& member,
                                                              Range<int64_t> range) const {
  ASSIGN_OR_RETURN(const json* list, List(member));
  return NumbersIn(range, *this, member, *list);
}

absl::StatusOr<std::vector<double>> JsonObject::Numbers(const std::string& member, int64_t count,
                                                        Range<double> range) const {
  ASSIGN_OR_RETURN(const json* list, List(member));
  if (std::ssize(*list) != count) {
    return Wrong(member, absl::StrCat("a list of ", count, ", each ", RangeText(range)));
  }
  return NumbersIn(range, *this, member, *list);
}

absl::StatusOr<bool> JsonObject::BoolOr(const std::string& member, bool otherwise) const {
  return Find(member) == nullptr ? otherwise : Bool(member);
}

absl::StatusOr<std::string> JsonObject::StringOr(const std::string& member,
                                                 const std::string& otherwise) const {
  return Find(member) == nullptr ? otherwise : String(member);
}

}  // namespace attention
