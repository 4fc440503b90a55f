// The name "localhost", which a machine without /etc/hosts does not know.
#pragma once

#include <netdb.h>

namespace attention {

inline constexpr char kNoLocalhost[] = "the system does not know the name localhost";

/// Whether the system finds an address of "localhost".
inline bool KnowsLocalhost() {
  addrinfo* found = nullptr;
  const bool is_known = getaddrinfo("localhost", nullptr, nullptr, &found) == 0;
  if (is_known) {
    freeaddrinfo(found);
  }
  return is_known;
}

}  // namespace attention
