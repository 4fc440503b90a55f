// Memory that is not there: allocations and mappings of this program that fail when told to.
//
// Linked into one program only, since it replaces operator new and mmap there. What fails are
// allocations that our own code makes, oneDNN's with it, on any thread but the client's; those of
// gRPC, protobuf and the C++ library's own functions are left alone: gRPC ends the process when it
// gets no memory (gpr_malloc), and so does the library in std::filesystem, by their design.
#pragma once

#include <cstdint>

namespace attention {

enum class Resource { kHeap, kMapping };

/// Lets the n-th request for the resource from now on fail, n >= 1, and no other.
void FailNth(Resource resource, int64_t n);
/// Ends that. Whether the n-th request came.
bool StopFailing();
/// Sets whether requests of this thread, such as the client's, never fail and do not count.
void SpareThisThread(bool spares = true);

}  // namespace attention
