// Attention of one tile of query rows over one head's packed keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels/attention/query_tile.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/tile_sums.h"

namespace attention {

/// Key sections [begin, end). Section s begins at key s * kKeySection of the sequence.
struct SectionRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Returns the key sections that rows of the tile attend to. REQUIRES: a KernelLease lives.
SectionRange SectionsOf(const QueryTile& tile);

/// Computes the tile's rows of everything that the sequence requests.
void AttendTile(const QueryTile& tile, const TileMemory& memory);

/// Computes the tile's sums over one of its key sections.
void AttendToSection(const QueryTile& tile, int64_t section, const TileSums& sums,
                     const TileMemory& memory);

/// Does the rest of AttendTile, after AttendToSection for each section of SectionsOf(tile), in
/// order. Changes the sums of the first section.
void MergeSections(const QueryTile& tile, std::span<const TileSums> sections,
                   const TileMemory& memory);

}  // namespace attention
