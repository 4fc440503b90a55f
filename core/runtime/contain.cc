#include "core/runtime/contain.h"

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

bool IsShortage(const std::system_error& error) {
  return error.code() == std::errc::resource_unavailable_try_again ||
         error.code() == std::errc::not_enough_memory ||
         error.code() == std::errc::too_many_files_open;
}

absl::Status Failed(absl::StatusCode code, std::string_view work, const char* what) {
  try {
    return absl::Status(code, absl::StrCat(std::string(work), " failed: ", what));
  } catch (...) {
    return absl::Status(code, "");  // which allocates nothing
  }
}

}  // namespace

absl::Status StatusOfException(std::string_view work) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    const std::string_view what = error.what();
    return Failed(absl::StatusCode::kResourceExhausted, work,
                  what == "std::bad_alloc" ? "out of memory" : error.what());
  } catch (const std::system_error& error) {
    return Failed(
        IsShortage(error) ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
        work, error.what());
  } catch (const std::exception& error) {
    return Failed(absl::StatusCode::kInternal, work, error.what());
  } catch (...) {
    return Failed(absl::StatusCode::kInternal, work, "an exception of unknown type");
  }
}

}  // namespace attention
