#include "server/observability/url_secret.h"

namespace attention {

std::string WithoutSecret(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) {
    return url;
  }
  // The secret ends at the last @ before the path, since a password may contain one.
  const size_t host = scheme + 3;
  const std::string authority = url.substr(host, url.find_first_of("/?#", host) - host);
  const size_t at = authority.rfind('@');
  return at == std::string::npos
             ? url
             : url.substr(0, scheme) + kHiddenSecret + url.substr(host + at + 1);
}

}  // namespace attention
