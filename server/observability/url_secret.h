// URLs without secrets.
#pragma once

#include <string>

namespace attention {

/// The text that replaces user and password.
inline constexpr char kHiddenSecret[] = "://hidden@";

/// Returns `url` with user and password replaced; other texts are unchanged.
std::string WithoutSecret(const std::string& url);

}  // namespace attention
