#include "core/kernels/attention/tile_tasks.h"

namespace attention {
namespace {

constexpr BufferName kTileSums{"tile sums"};
constexpr BufferName kExpandedKeys{"expanded keys and values"};

/// A tile is divided when it is more than this part of the share of one thread: about the time that
/// the other threads may wait for the last one.
constexpr double kLargeShare = 0.25;

/// The most memory for sums of key sections, for each thread. Tiles whose sums have no room are not
/// divided.
constexpr int64_t kMaxSumsBytes = int64_t{4} << 20;

int64_t KeysOf(const QueryTile& tile) {
  return tile.sequence->visibility().MostKeys(tile.first_row, tile.rows_per_head);
}

/// Estimates the time of a tile, in rows times keys.
double CostOf(const QueryTile& tile) {
  return static_cast<double>(tile.rows()) * static_cast<double>(KeysOf(tile));
}

bool CanDivide(const QueryTile& tile) { return tile.with_output && KeysOf(tile) > kKeySection; }

/// The floats of the sums of one section.
int64_t SumsFloats(const QueryTile& tile) {
  return RoundUp(TileSums::Floats(tile.rows(), tile.plan->value_width()), 16);
}

int64_t SumsBytes(const QueryTile& tile, SectionRange sections) {
  return (sections.end - sections.begin) * SumsFloats(tile) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

TileTasks::TileTasks(std::span<const QueryTile> tiles, Workspace& workspace)
    : workspace_(workspace) {
  double cost = 0;
  std::vector<double> costs;
  costs.reserve(tiles.size());
  for (const QueryTile& tile : tiles) {
    costs.push_back(CostOf(tile));
    cost += costs.back();
    if (expanding_ == nullptr && ExpandsKeys(tile)) {
      expanding_ = tile.plan;
    }
  }
  const int threads = workspace.pool().num_threads();
  const double large = kLargeShare * cost / threads;
  tasks_.reserve(tiles.size());
  int64_t room = threads * kMaxSumsBytes;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const QueryTile& tile = tiles[i];
    const bool divides = threads > 1 && costs[i] > large && CanDivide(tile);
    const SectionRange sections = divides ? SectionsOf(tile) : SectionRange{};
    const int64_t bytes = SumsBytes(tile, sections);
    if (sections.end - sections.begin > 1 && bytes <= room) {
      room -= bytes;
      Divide(tile, sections);
    } else {
      tasks_.push_back({&tile});
    }
  }
}

double TileTasks::Flops(const QueryTile& tile) {
  return 2.0 * CostOf(tile) * static_cast<double>(tile.plan->depth() + tile.plan->value_width());
}

void TileTasks::Divide(const QueryTile& tile, SectionRange sections) {
  const size_t count = sections.end - sections.begin;
  divided_.push_back({&tile, sums_.size(), count});
  for (int64_t section = sections.begin; section < sections.end; ++section) {
    tasks_.push_back({&tile, section, sums_.size()});
    sums_.emplace_back();
  }
}

void TileTasks::ReserveSums() {
  int64_t floats = 0;
  for (const DividedTile& divided : divided_) {
    floats += SumsFloats(*divided.tile) * static_cast<int64_t>(divided.count);
  }
  auto* memory = reinterpret_cast<float*>(workspace_.Buffer(kTileSums, floats * sizeof(float)));
  for (const DividedTile& divided : divided_) {
    for (size_t i = 0; i < divided.count; ++i) {
      sums_[divided.first_sums + i] =
          TileSums::In(memory, divided.tile->rows(), divided.tile->plan->value_width());
      memory += SumsFloats(*divided.tile);
    }
  }
}

void TileTasks::ReserveExpandedKeys() {
  if (expanding_ == nullptr) {
    return;
  }
  const int threads = workspace_.pool().num_threads();
  const int64_t floats = ExpandedKeys::Floats(*expanding_);
  auto* memory =
      reinterpret_cast<float*>(workspace_.Buffer(kExpandedKeys, threads * floats * sizeof(float)));
  for (int worker = 0; worker < threads; ++worker) {
    expanded_.emplace_back(*expanding_, memory + worker * floats);
  }
}

TileMemory TileTasks::MemoryOf(int worker, size_t scratch_bytes) {
  return {workspace_.Scratch(worker, scratch_bytes),
          expanding_ == nullptr ? nullptr : &expanded_[worker]};
}

void TileTasks::Run(size_t scratch_bytes) {
  ReserveSums();
  ReserveExpandedKeys();
  workspace_.pool().ParallelFor(std::ssize(tasks_), [&](int64_t i, int worker) {
    const KernelRun run;
    const Task& task = tasks_[i];
    const TileMemory memory = MemoryOf(worker, scratch_bytes);
    if (task.section == kWholeTile) {
      AttendTile(*task.tile, memory);
    } else {
      AttendToSection(*task.tile, task.section, sums_[task.sums], memory);
    }
  });
  workspace_.pool().ParallelFor(std::ssize(divided_), [&](int64_t i, int worker) {
    const KernelRun run;
    const DividedTile& divided = divided_[i];
    MergeSections(*divided.tile, std::span(sums_).subspan(divided.first_sums, divided.count),
                  MemoryOf(worker, scratch_bytes));
  });
}

}  // namespace attention
