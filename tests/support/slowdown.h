// What a sanitizer costs, for tests that are about time or do much of the same.
#pragma once

namespace attention {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTEND_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATTEND_IS_SANITIZED 1
#endif
#endif

/// The factor by which limits of time grow, and repetitions become fewer, under a sanitizer.
#ifdef ATTEND_IS_SANITIZED
inline constexpr int kSlowdown = 20;
#else
inline constexpr int kSlowdown = 1;
#endif

}  // namespace attention
