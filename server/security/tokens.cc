#include "server/security/tokens.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/counted.h"
#include "core/runtime/json_text.h"
#include "core/runtime/nearest_name.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"
#include "nlohmann/json.hpp"
#include "server/log/log.h"

namespace attention {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokenFileBytes = size_t{16} << 20;
constexpr size_t kHashDigits = size_t{2} * SHA256_DIGEST_LENGTH;
constexpr std::chrono::seconds kLookInterval{1};
// The maximum length of an unknown key that an error quotes. A longer text is no misspelt key.
constexpr size_t kMaxKeyBytes = 20;

// Returns the name of a key in an error. A long one may be a token.
std::string NameOf(const std::string& key) {
  return key.size() > kMaxKeyBytes ? absl::StrCat("a key of ", key.size(), " bytes") : key;
}

// Returns the type of a value without its contents: the value may be a token in the wrong place,
// and errors are logged. So this file is not read by JsonObject, whose errors quote values.
std::string KindOf(const json& value) {
  if (value.is_string()) {
    return absl::StrCat("a text of ", value.get_ref<const std::string&>().size(), " bytes");
  }
  return value.is_structured() ? absl::StrCat("an ", value.type_name(), " of ", value.size())
                               : value.type_name();
}

absl::Status Wrong(const std::string& key, const std::string& expected, const json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected ", expected, ", found ", KindOf(found)));
}

std::string HashOf(const std::string& token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash = {};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

bool IsText(const json& value) { return value.is_string() && !value.get<std::string>().empty(); }

absl::Status ReadModels(const json& value, Caller& caller) {
  std::vector<std::string> patterns;
  if (!value.is_array()) {
    return Wrong("models", "an array of names or patterns", value);
  }
  for (const json& pattern : value) {
    if (!IsText(pattern)) {
      return Wrong(absl::StrCat("models[", patterns.size(), "]"), "a name or pattern", pattern);
    }
    patterns.push_back(pattern.get<std::string>());
  }
  caller.models = std::make_shared<const std::vector<std::string>>(std::move(patterns));
  return absl::OkStatus();
}

absl::Status ReadPriority(const json& value, Caller& caller) {
  const std::optional<Priority> priority =
      value.is_string() ? PriorityNamed(value.get<std::string>()) : std::nullopt;
  if (!priority.has_value()) {
    return Wrong("max_priority", "high, normal or low", value);
  }
  caller.max_priority = *priority;
  return absl::OkStatus();
}

absl::Status ReadField(const std::string& key, const json& value, std::string& hash,
                       TokenEntry& entry) {
  if (key == "sha256") {
    hash = value.is_string() ? value.get<std::string>() : "";
    const bool is_hash = hash.size() == kHashDigits &&
                         hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    return is_hash ? absl::OkStatus() : Wrong(key, "64 lower-case hexadecimal digits", value);
  }
  if (key == "tenant") {
    entry.caller.tenant = value.is_string() ? value.get<std::string>() : "";
    return IsText(value) ? absl::OkStatus() : Wrong(key, "a name", value);
  }
  if (key == "models") {
    return ReadModels(value, entry.caller);
  }
  if (key == "admin") {
    entry.caller.has_admin_right = value.is_boolean() && value.get<bool>();
    return value.is_boolean() ? absl::OkStatus() : Wrong(key, "true or false", value);
  }
  if (key == "expires") {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    return absl::ParseTime(absl::RFC3339_full, text, &entry.expires, nullptr)
               ? absl::OkStatus()
               : Wrong(key, "a time such as 2027-01-31T00:00:00Z", value);
  }
  if (key == "max_priority") {
    return ReadPriority(value, entry.caller);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(key), ": no such key",
      NearestHint(key, {"sha256", "tenant", "models", "admin", "expires", "max_priority"})));
}

absl::Status ReadEntry(const json& wire, TokenTable& table) {
  std::string hash;
  TokenEntry entry;
  if (!wire.is_object()) {
    return absl::InvalidArgumentError("expected an object");
  }
  for (const auto& [key, value] : wire.items()) {
    RETURN_IF_ERROR(ReadField(key, value, hash, entry));
  }
  if (hash.empty() || entry.caller.tenant.empty()) {
    return absl::InvalidArgumentError("expected sha256 and tenant, found only one or neither");
  }
  if (!table.emplace(hash, std::move(entry)).second) {
    return absl::InvalidArgumentError(
        "sha256: expected a hash that no earlier entry has, found one that has an entry already");
  }
  return absl::OkStatus();
}

// Logs what was read: a warning when it admits nobody.
void LogTokens(const TokenTable& table, const std::string& path) {
  const absl::Time now = absl::Now();
  const bool admits =
      std::ranges::any_of(table, [&](const auto& entry) { return entry.second.expires > now; });
  Log(admits ? LogLevel::kInfo : LogLevel::kWarning,
      absl::StrCat("read ", Counted(std::ssize(table), "token"), " from ", path,
                   admits ? ""
                          : ": expected one that has not expired, found none, so every caller "
                            "is refused"));
}

}  // namespace

absl::StatusOr<TokenTable> ReadTokenFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxTokenFileBytes));
  ASSIGN_OR_RETURN(const json file, ParseJsonObject(text, path));
  if (file.size() != 1 || !file.contains("tokens") || !file["tokens"].is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected {\"tokens\": [...]} and nothing else"));
  }
  if (const std::optional<std::string> repeated = RepeatedJsonName(text)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", NameOf(*repeated), ": given twice"));
  }
  TokenTable table;
  for (const json& entry : file["tokens"]) {
    if (const absl::Status status = ReadEntry(entry, table); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tokens[", table.size(), "]: ", std::string(status.message())));
    }
  }
  return table;
}

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(const std::string& path) {
  std::unique_ptr<TokenStore> store(new TokenStore(path));
  store->watch_.HasChanged();
  RETURN_IF_ERROR(store->Read());
  return store;
}

absl::Status TokenStore::Read() {
  ASSIGN_OR_RETURN(TokenTable table, ReadTokenFile(path_));
  LogTokens(table, path_);
  auto read = std::make_shared<const TokenTable>(std::move(table));
  MutexLock lock(mutex_);
  table_ = std::move(read);
  return absl::OkStatus();
}

std::shared_ptr<const TokenTable> TokenStore::Latest() {
  const auto now = std::chrono::steady_clock::now();
  bool is_due = false;
  {
    MutexLock lock(mutex_);
    is_due = now >= next_look_;
    next_look_ = is_due ? now + kLookInterval : next_look_;
  }
  if (is_due) {
    watch_.Update([this] { return Read(); });
  }
  MutexLock lock(mutex_);
  return table_;
}

absl::StatusOr<Caller> TokenStore::Find(const std::string& token) {
  const std::shared_ptr<const TokenTable> table = Latest();
  const auto found = table->find(HashOf(token));
  if (found == table->end()) {
    return absl::UnauthenticatedError(
        "authorization: expected a token that this server knows, found an unknown one");
  }
  if (found->second.expires <= absl::Now()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "authorization: expected a token that has not expired, found one of ",
        found->second.caller.tenant, " that expired at ",
        absl::FormatTime(absl::RFC3339_sec, found->second.expires, absl::UTCTimeZone())));
  }
  return found->second.caller;
}

bool TokenStore::IsFileValid() {
  Latest();
  return watch_.are_valid();
}

std::string MakeAccessToken(const std::string& tenant) {
  std::array<unsigned char, 32> random = {};
  if (RAND_bytes(random.data(), random.size()) != 1) {
    std::fputs("attend-server: the system gives no random numbers\n", stderr);
    std::abort();
  }
  const std::string token =
      absl::StrCat("attend_", absl::WebSafeBase64Escape(std::string(
                                  reinterpret_cast<const char*>(random.data()), random.size())));
  const json entry = {{"sha256", HashOf(token)}, {"tenant", tenant}};
  return absl::StrCat("The token, for the client's --token-file; it is not kept here:\n", token,
                      "\n\nIts entry in the file of --tokens, {\"tokens\": [ENTRY, ...]}:\n",
                      entry.dump(2, ' ', false, json::error_handler_t::replace), "\n");
}

}  // namespace attention
