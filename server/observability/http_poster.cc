#include "server/observability/http_poster.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/observability/url_secret.h"

namespace attention {
namespace {

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

void AddHeader(const std::string& line, Headers& lines) {
  curl_slist* const first = curl_slist_append(lines.get(), line.c_str());
  if (first == nullptr) {
    throw std::bad_alloc();
  }
  if (lines == nullptr) {  // else `first` is what it was
    lines.reset(first);
  }
}

// Initializes libcurl before its first use, on one thread. It is never uninitialized, since other
// libraries may use it too.
bool IsCurlReady() {
  static const bool is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return is_ready;
}

size_t Keep(char* data, size_t size, size_t count, void* body) {
  auto& kept = *static_cast<std::string*>(body);
  kept.append(data, std::min(size * count, HttpPoster::kMaxBody - kept.size()));
  return size * count;
}

int StopWhenAborted(void* is_aborted, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<const std::atomic<bool>*>(is_aborted) ? 1 : 0;
}

bool IsHttpUrl(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  const size_t host = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : url.size();
  return host < url.size() && url[host] != '/' &&  // libcurl looks for a host behind the slashes
         curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
}

// Returns `text`, which is no URL, with a user and password hidden, wherever they stand in it.
std::string WithoutAnySecret(const std::string& text) {
  const std::string shown = WithoutSecret(text);
  const size_t at = shown == text ? text.rfind('@') : std::string::npos;
  return at == std::string::npos ? shown : "hidden" + text.substr(at);
}

}  // namespace

struct HttpPoster::State {
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl{curl_easy_init(), &curl_easy_cleanup};
  std::string url;
};

HttpPoster::HttpPoster(std::unique_ptr<State> state) : state_(std::move(state)) {
  CURL* const curl = state_->curl.get();
  curl_easy_setopt(curl, CURLOPT_URL, state_->url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, absl::ToInt64Milliseconds(kConnectTimeout));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, absl::ToInt64Milliseconds(kTimeout));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Keep);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, StopWhenAborted);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &is_aborted_);
}

HttpPoster::~HttpPoster() = default;

absl::Status HttpPoster::CheckUrl(const std::string& url) {
  return IsHttpUrl(url) ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrCat(
                              "expected a URL http://HOST:PORT or https://HOST:PORT, found ",
                              WithoutAnySecret(url)));
}

absl::StatusOr<std::unique_ptr<HttpPoster>> HttpPoster::Create(const std::string& url) {
  RETURN_IF_ERROR(CheckUrl(url));
  if (!IsCurlReady()) {
    return absl::InternalError("libcurl cannot be initialized");
  }
  auto state = std::make_unique<State>();
  if (state->curl == nullptr) {
    return absl::ResourceExhaustedError("libcurl has no memory for a handle");
  }
  state->url = url;
  return std::unique_ptr<HttpPoster>(new HttpPoster(std::move(state)));
}

absl::StatusOr<HttpPoster::Answer> HttpPoster::Post(const std::string& body,
                                                    const std::vector<std::string>& headers) {
  CURL* const curl = state_->curl.get();
  Headers lines(nullptr, &curl_slist_free_all);
  AddHeader("Expect:", lines);  // a body is sent without asking first
  for (const std::string& header : headers) {
    AddHeader(header, lines);
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines.get());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  Answer answer;
  answer.body.reserve(kMaxBody);  // Keep, which libcurl calls, must not throw
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) {
    return absl::UnavailableError(curl_easy_strerror(code));
  }
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  answer.status = static_cast<int>(status);
  answer.retry_after = absl::Seconds(retry_after);
  return answer;
}

}  // namespace attention
