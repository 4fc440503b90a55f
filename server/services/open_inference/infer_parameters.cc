#include "server/services/open_inference/infer_parameters.h"

#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/option_parameters.h"
#include "server/services/open_inference/native_errors.h"

namespace attention {
namespace {

using google::protobuf::FieldDescriptor;
using inference::InferParameter;

// A parameter, with its name in errors.
struct Parameter {
  std::string owner;  // `parameter "layer"`
  const InferParameter& wire;
};

// Returns a text that does not look like an integer: 0.0, not 0.
std::string DoubleText(double value) {
  const std::string text = absl::StrCat(value);
  const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return is_whole ? text + ".0" : text;
}

// Returns the value with its type: `an int64 0`.
std::string ValueText(const InferParameter& wire) {
  switch (wire.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return wire.bool_param() ? "a bool true" : "a bool false";
    case InferParameter::kInt64Param:
      return absl::StrCat("an int64 ", wire.int64_param());
    case InferParameter::kStringParam:
      return absl::StrCat("a string \"", wire.string_param(), "\"");
    case InferParameter::kDoubleParam:
      return absl::StrCat("a double ", DoubleText(wire.double_param()));
    case InferParameter::kUint64Param:
      return absl::StrCat("a uint64 ", wire.uint64_param());
    default:
      return "no value";
  }
}

absl::Status Expected(const std::string& what, const Parameter& parameter) {
  return absl::InvalidArgumentError(
      absl::StrCat(parameter.owner, ": expected ", what, ", found ", ValueText(parameter.wire)));
}

absl::StatusOr<bool> ReadBool(const Parameter& parameter) {
  return parameter.wire.has_bool_param() ? absl::StatusOr<bool>(parameter.wire.bool_param())
                                         : Expected("a bool", parameter);
}

absl::StatusOr<std::string> ReadString(const Parameter& parameter) {
  return parameter.wire.has_string_param()
             ? absl::StatusOr<std::string>(parameter.wire.string_param())
             : Expected("a string", parameter);
}

absl::StatusOr<int64_t> ReadInteger(const Parameter& parameter) {
  const InferParameter& wire = parameter.wire;
  if (wire.has_int64_param()) {
    return wire.int64_param();
  }
  if (wire.has_uint64_param() && wire.uint64_param() <= std::numeric_limits<int64_t>::max()) {
    return static_cast<int64_t>(wire.uint64_param());
  }
  return Expected("an int64", parameter);
}

absl::StatusOr<int64_t> ReadIntegerOrText(const Parameter& parameter) {
  int64_t value = 0;
  if (parameter.wire.has_string_param() &&
      absl::SimpleAtoi(parameter.wire.string_param(), &value)) {
    return value;
  }
  return parameter.wire.has_string_param() ? Expected("an int64 or a decimal number", parameter)
                                           : ReadInteger(parameter);
}

absl::StatusOr<double> ReadNumber(const Parameter& parameter) {
  const InferParameter& wire = parameter.wire;
  double value = 0;
  if (wire.has_double_param()) {
    return wire.double_param();
  }
  if (wire.has_int64_param()) {
    return static_cast<double>(wire.int64_param());
  }
  if (wire.has_string_param() && absl::SimpleAtod(wire.string_param(), &value)) {
    return value;
  }
  return Expected("a number", parameter);
}

absl::StatusOr<int64_t> ReadCount(const Parameter& parameter) {
  ASSIGN_OR_RETURN(const int64_t count, ReadInteger(parameter));
  return count >= 0 ? absl::StatusOr<int64_t>(count) : Expected("0 or more", parameter);
}

// Refuses parameters that ask for a sequence that the server keeps between requests.
absl::Status ExpectNoSequence(const Parameter& parameter) {
  const InferParameter& wire = parameter.wire;
  const bool asks = wire.bool_param() || wire.int64_param() != 0 || wire.uint64_param() != 0 ||
                    wire.double_param() != 0 || !wire.string_param().empty();
  if (asks) {
    return absl::InvalidArgumentError(
        absl::StrCat(parameter.owner,
                     ": expected none: a sequence that the server keeps is a Decode call of "
                     "attention.v1.AttentionService, found ",
                     ValueText(wire)));
  }
  return absl::OkStatus();
}

template <typename Target, typename T>
absl::Status Store(absl::StatusOr<T> value, Target& target) {
  RETURN_IF_ERROR(value.status());
  target = *std::move(value);
  return absl::OkStatus();
}

absl::Status ReadOption(const Parameter& parameter, const FieldDescriptor& field,
                        v1::AttentionOptions& options) {
  const auto& reflection = *options.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    ASSIGN_OR_RETURN(const bool value, ReadBool(parameter));
    reflection.SetBool(&options, &field, value);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    ASSIGN_OR_RETURN(const int64_t value, ReadIntegerOrText(parameter));
    reflection.SetInt64(&options, &field, value);
  } else {
    ASSIGN_OR_RETURN(const double value, ReadNumber(parameter));
    reflection.SetDouble(&options, &field, value);
  }
  return absl::OkStatus();
}

std::string OptionNames() {
  return absl::StrJoin(OptionParameters(), ", ", [](std::string* text, const auto* field) {
    absl::StrAppend(text, field->name());
  });
}

// Returns whether a parameter of a tensor has no effect: those that tell how the bytes travel over
// HTTP, which clients set over gRPC too; MLServer's name for the type in its program; no classes.
bool HasNoEffect(const std::string& name, const InferParameter& wire) {
  return name == "binary_data_size" || name == "binary_data" || name == "content_type" ||
         (name == "classification" && wire.has_int64_param() && wire.int64_param() == 0);
}

using Reader = absl::Status (*)(const Parameter& parameter, InferParameters& result);

const std::map<std::string, Reader>& Readers() {
  static const std::map<std::string, Reader> readers = {
      {"layer",
       [](const Parameter& p, InferParameters& r) { return Store(ReadIntegerOrText(p), r.layer); }},
      {"weights_layer",
       [](const Parameter& p, InferParameters& r) {
         return Store(ReadIntegerOrText(p), r.weights_layer);
       }},
      {"priority",
       [](const Parameter& p, InferParameters& r) { return Store(ReadCount(p), r.priority); }},
      {"timeout",
       [](const Parameter& p, InferParameters& r) { return Store(ReadCount(p), r.timeout_us); }},
      {"triton_enable_empty_final_response",
       [](const Parameter& p, InferParameters& r) {
         return Store(ReadBool(p), r.wants_empty_final_response);
       }},
      {"sequence_id", [](const Parameter& p, InferParameters&) { return ExpectNoSequence(p); }},
      {"sequence_start", [](const Parameter& p, InferParameters&) { return ExpectNoSequence(p); }},
      {"sequence_end", [](const Parameter& p, InferParameters&) { return ExpectNoSequence(p); }},
      // Parameters of the protocol over HTTP, and MLServer's, which have no effect here.
      {"headers", [](const Parameter&, InferParameters&) { return absl::OkStatus(); }},
      {"binary_data_output", [](const Parameter&, InferParameters&) { return absl::OkStatus(); }},
      {"content_type", [](const Parameter&, InferParameters&) { return absl::OkStatus(); }},
  };
  return readers;
}

// Returns the parameters in order of name, so that of several errors always the same is returned.
std::map<std::string, const InferParameter*> Sorted(const ParameterMap& parameters) {
  std::map<std::string, const InferParameter*> sorted;
  for (const auto& [name, parameter] : parameters) {
    sorted.emplace(name, &parameter);
  }
  return sorted;
}

}  // namespace

absl::StatusOr<InferParameters> ReadParameters(const ParameterMap& parameters) {
  InferParameters result;
  for (const auto& [name, wire] : Sorted(parameters)) {
    const auto reader = Readers().find(name);
    const FieldDescriptor* const option = FindOptionParameter(name);
    if (option != nullptr) {
      RETURN_IF_ERROR(ReadOption({ParameterName(name), *wire}, *option, result.options));
    } else if (reader != Readers().end()) {
      RETURN_IF_ERROR(reader->second({ParameterName(name), *wire}, result));
    } else if (absl::StartsWith(name, "triton_")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters: names that begin with \"triton_\" are reserved, found \"", name, "\""));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("parameters: expected layer, weights_layer, ", OptionNames(),
                       " or one of the protocol's own, found \"", name, "\""));
    }
  }
  return result;
}

absl::StatusOr<std::optional<RegionRange>> ReadRegionRange(const ParameterMap& parameters,
                                                           const std::string& owner) {
  RegionRange range;
  bool has_region = false;
  bool has_size = false;
  bool has_offset = false;
  for (const auto& [name, wire] : Sorted(parameters)) {
    const Parameter parameter = {absl::StrCat(owner, " parameter \"", name, "\""), *wire};
    if (name == "shared_memory_region") {
      RETURN_IF_ERROR(Store(ReadString(parameter), range.region));
      has_region = true;
    } else if (name == "shared_memory_byte_size") {
      RETURN_IF_ERROR(Store(ReadCount(parameter), range.byte_size));
      has_size = true;
    } else if (name == "shared_memory_offset") {
      RETURN_IF_ERROR(Store(ReadCount(parameter), range.offset));
      has_offset = true;
    } else if (!HasNoEffect(name, *wire)) {
      return absl::InvalidArgumentError(
          absl::StrCat(owner,
                       " parameters: expected shared_memory_region, shared_memory_byte_size "
                       "and shared_memory_offset, found \"",
                       name, "\""));
    }
  }
  if (has_region != has_size || (has_offset && !has_region)) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner,
                     " parameters: expected shared_memory_region and "
                     "shared_memory_byte_size, found one of them or neither"));
  }
  return has_region ? std::optional<RegionRange>(range) : std::nullopt;
}

}  // namespace attention
