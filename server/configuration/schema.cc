#include "server/configuration/schema.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "server/configuration/option_table.h"
#include "server/configuration/settings.h"

namespace attention {
namespace {

using nlohmann::ordered_json;

ordered_json SchemaOfValue(const Option& option) {
  switch (option.type) {
    case Option::Type::kInteger:
    case Option::Type::kSize: {
      ordered_json schema = {{"type", "integer"}, {"minimum", option.range.min}};
      if (option.range.max < std::numeric_limits<int64_t>::max()) {
        schema["maximum"] = option.range.max;
      }
      if (option.type == Option::Type::kSize) {
        schema["type"] = {"integer", "string"};
        schema["pattern"] = "^[0-9]+([kKMGT]|[KMGT]i)?B?$";
      }
      return schema;
    }
    case Option::Type::kNumber:
      return {{"type", "number"}, {"minimum", option.range.min}, {"maximum", option.range.max}};
    case Option::Type::kDuration:
      return {{"type", {"string", "number"}},
              {"minimum", option.range.min},
              {"maximum", option.range.max},
              {"minLength", 1}};
    case Option::Type::kSwitch:
      return {{"type", "boolean"}};
    case Option::Type::kText:
      break;
  }
  if (!option.choices.empty()) {
    return {{"enum", option.choices}};
  }
  ordered_json schema = {{"type", "string"}};
  if (option.min_length > 0) {
    schema["minLength"] = option.min_length;
  }
  return schema;
}

ordered_json SchemaOf(const Option& option) {
  const ordered_json value = SchemaOfValue(option);
  ordered_json any_of = {value, {{"type", "null"}}};
  if (option.is_repeatable) {
    any_of.push_back({{"type", "array"}, {"items", value}});
  }
  return {{"description", absl::StrReplaceAll(option.help, {{"\n", " "}})},
          {"default", ToJson(option, option.default_values)},
          {"anyOf", any_of}};
}

}  // namespace

std::string ConfigurationSchema() {
  ordered_json properties = {{"$schema", {{"type", "string"}}}};
  for (const OptionSection& section : OptionSections()) {
    for (const Option& option : section.options) {
      properties[KeyOf(option.name)] = SchemaOf(option);
    }
  }
  const ordered_json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                               {"title", "attend-server --config"},
                               {"type", "object"},
                               {"additionalProperties", false},
                               {"properties", properties}};
  return schema.dump(2) + "\n";
}

}  // namespace attention
