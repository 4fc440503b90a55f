// How the threads of a pool share query tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/attention/attention_tile.h"
#include "core/kernels/attention/query_tile.h"
#include "core/runtime/workspace.h"

namespace attention {

/// Query tiles as tasks of a thread pool. A task is a whole tile or, where one tile is so much of
/// the work that the other threads would wait for it, one key section of a tile. The bits of the
/// results do not depend on it. At most 4 MiB for each thread are used for sums of sections.
class TileTasks {
 public:
  /// Borrows both. REQUIRES: a KernelLease lives as long as the object.
  TileTasks(std::span<const QueryTile> tiles, Workspace& workspace);

  /// Estimates the number of floating point operations of a tile.
  static double Flops(const QueryTile& tile);

  /// Computes the tiles. `scratch_bytes` is the largest TileBuffers::Bytes of any tile. Uses
  /// buffers of the workspace.
  void Run(size_t scratch_bytes);

 private:
  struct Task {
    const QueryTile* tile;
    int64_t section = kWholeTile;
    size_t sums = 0;  // index in sums_, of a section
  };
  /// A tile whose sections are tasks: sums_[first_sums, first_sums + count).
  struct DividedTile {
    const QueryTile* tile;
    size_t first_sums;
    size_t count;
  };
  static constexpr int64_t kWholeTile = -1;

  template <typename F>
  void RunTile(const QueryTile& tile, int worker, size_t scratch_bytes, const F& run);
  void Divide(const QueryTile& tile, SectionRange sections);
  void ReserveSums();
  void ReserveExpandedKeys();

  Workspace& workspace_;
  std::vector<Task> tasks_;
  int64_t page_bytes_ = 0;  // the largest page of a tile that packs its keys
  std::vector<DividedTile> divided_;
  std::vector<TileSums> sums_;                // of the sections of all divided tiles
  const AttentionPlan* expanding_ = nullptr;  // of a tile that expands its keys; null: none does
  std::vector<ExpandedKeys> expanded_;        // of each thread, if a tile expands its keys
};

}  // namespace attention
