// A safetensors file, read whole.
#include "core/tensor/safetensors.h"
#include "tests/fuzz/scratch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const attention::ScratchFile file(data, size);
  const auto tensors = attention::ReadSafetensors(file.path());
  if (tensors.ok()) {
    for (const auto& [name, tensor] : *tensors) {
      // A file cannot hold more elements than bytes.
      if (tensor.num_elements() > static_cast<int64_t>(size)) {
        abort();
      }
    }
  }
  return 0;
}
