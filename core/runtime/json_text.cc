#include "core/runtime/json_text.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "nlohmann/json.hpp"

namespace attention {

using nlohmann::json;

namespace {

/// Follows the nesting of a text, and keeps no values. The callback of json::parse would do so too,
/// but that parser looks through all members of an object, or elements of a list, after each object
/// in it: in quadratic time.
class NestingScan : public json::json_sax_t {
 public:
  bool is_too_deep() const { return depth_ > kMaxJsonDepth; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(size_t) override { return Open(); }
  bool key(std::string&) override { return true; }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  // False ends the scan.
  bool Open() { return ++depth_ <= kMaxJsonDepth; }
  bool Close() { return --depth_ >= 0; }

  int depth_ = 0;
};

/// Finds the first name that an object has twice.
class NameScan : public NestingScan {
 public:
  const std::optional<std::string>& repeated() const { return repeated_; }

  bool start_object(size_t size) override {
    names_.emplace_back();
    return NestingScan::start_object(size);
  }
  bool key(std::string& name) override {
    if (!repeated_.has_value()) {
      const auto [known, is_new] = names_.back().insert(std::move(name));
      repeated_ = is_new ? std::nullopt : std::optional(*known);
    }
    return true;
  }
  bool end_object() override {
    names_.pop_back();
    return NestingScan::end_object();
  }

 private:
  std::vector<std::set<std::string>> names_;  // of each open object
  std::optional<std::string> repeated_;
};

/// Returns whether the text is JSON, and not too deep for `scan`.
bool Accepts(std::string_view text, bool ignore_comments, NestingScan& scan) {
  return json::sax_parse(text, &scan, json::input_format_t::json, /*strict=*/true, ignore_comments);
}

/// Returns whether the text is JSON. The errors are those of CheckJsonText.
absl::StatusOr<bool> IsBoundedJson(std::string_view text, const std::string& source,
                                   bool ignore_comments) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected JSON text, found the byte 0 at offset ", zero));
  }
  NestingScan scan;
  const bool is_json = Accepts(text, ignore_comments, scan);
  if (scan.is_too_deep()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected at most ", kMaxJsonDepth,
                                                   " levels of nesting, found more"));
  }
  return is_json;
}

}  // namespace

absl::Status CheckJsonText(std::string_view text, const std::string& source) {
  return IsBoundedJson(text, source, /*ignore_comments=*/true).status();
}

absl::StatusOr<json> ParseJson(std::string_view text, const std::string& source) {
  ASSIGN_OR_RETURN(const bool is_json, IsBoundedJson(text, source, /*ignore_comments=*/false));
  if (!is_json) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": expected JSON, found other text"));
  }
  return json::parse(text);
}

absl::StatusOr<json> ParseJsonObject(std::string_view text, const std::string& source) {
  ASSIGN_OR_RETURN(json parsed, ParseJson(text, source));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected a JSON object, found ", parsed.type_name()));
  }
  return parsed;
}

std::optional<std::string> RepeatedJsonName(std::string_view text) {
  NameScan scan;
  return Accepts(text, /*ignore_comments=*/true, scan) ? scan.repeated() : std::nullopt;
}

}  // namespace attention
