#include "proto/codec/payload.h"

#include <algorithm>
#include <cstring>

namespace attention {
namespace {

// The number of elements that are converted at a time on the stack, so that the wire bytes pass
// memory once.
constexpr int64_t kChunkElements = 2048;

}  // namespace

ReceivedBytes::ReceivedBytes(const grpc::ByteBuffer& wire, std::vector<grpc::Slice> appended) {
  if (!wire.Valid() || !wire.Dump(&slices_).ok()) {
    slices_.clear();
  }
  std::erase_if(appended, [](const grpc::Slice& slice) { return slice.size() == 0; });
  slices_.insert(slices_.end(), appended.begin(), appended.end());
  slice_begins_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    slice_begins_.push_back(size_bytes_);
    size_bytes_ += slice.size();
  }
}

void ReceivedBytes::CopyTo(size_t offset, size_t count, void* target) const {
  if (count == 0) {
    return;
  }
  auto* out = static_cast<std::byte*>(target);
  const auto after = std::upper_bound(slice_begins_.begin(), slice_begins_.end(), offset);
  size_t index = static_cast<size_t>(after - slice_begins_.begin()) - 1;
  size_t within = offset - slice_begins_[index];
  while (count > 0) {
    const grpc::Slice& slice = slices_[index];
    const size_t step = std::min(count, slice.size() - within);
    std::memcpy(out, slice.begin() + within, step);
    out += step;
    count -= step;
    within = 0;
    ++index;
  }
}

void Payload::CopyTo(size_t first_byte, size_t count, void* target) const {
  if (count > 0) {
    message_->CopyTo(offset_ + first_byte, count, target);
  }
}

void Payload::ConvertTo(Dtype source, Elements elements, Dtype target_dtype, void* target) const {
  const int64_t source_size = static_cast<int64_t>(SizeOf(source));
  if (source == target_dtype) {
    CopyTo(elements.first * source_size, elements.count * source_size, target);
    return;
  }
  std::byte chunk[kChunkElements * sizeof(float)];
  auto* out = static_cast<std::byte*>(target);
  for (int64_t done = 0; done < elements.count; done += kChunkElements) {
    const int64_t count = std::min(kChunkElements, elements.count - done);
    CopyTo((elements.first + done) * source_size, count * source_size, chunk);
    Convert(source, chunk, target_dtype, out, count);
    out += count * static_cast<int64_t>(SizeOf(target_dtype));
  }
}

}  // namespace attention
