#include "core/kernels/onednn/version.h"

#ifndef __aarch64__
#include <oneapi/dnnl/dnnl.h>
#endif

#include "absl/strings/str_cat.h"

namespace attention {

std::string OneDnnVersion() {
#ifdef __aarch64__
  return "none";
#else
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
#endif
}

}  // namespace attention
