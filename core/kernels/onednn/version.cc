#include "core/kernels/onednn/version.h"

#include <oneapi/dnnl/dnnl.h>

#include "absl/strings/str_cat.h"

namespace attention {

std::string OneDnnVersion() {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace attention
