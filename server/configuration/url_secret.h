// URLs that may be shown.
#pragma once

#include <string>

namespace attention {

/// What a shown URL has in the place of user and password.
inline constexpr char kHiddenSecret[] = "://hidden@";

/// `url` with that in the place of theirs; other texts as they are.
std::string WithoutSecret(const std::string& url);

}  // namespace attention
