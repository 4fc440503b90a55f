#include "core/tensor/huge_pages.h"

#include <sys/mman.h>

namespace attention {

void AdviseHugePages(void* data, size_t size_bytes) { madvise(data, size_bytes, MADV_HUGEPAGE); }

}  // namespace attention
