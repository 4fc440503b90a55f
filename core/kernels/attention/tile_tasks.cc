#include "core/kernels/attention/tile_tasks.h"

#include <algorithm>

#include "core/kernels/attention/pack_keys.h"

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

/// Estimates the time of a tile, in rows times keys. A key and its value are packed in about the
/// time of kFewRows rows.
double CostOf(const QueryTile& tile) {
  const int64_t rows = tile.rows() + (tile.packs_keys ? kFewRows : 0);
  return static_cast<double>(rows) * static_cast<double>(KeysOf(tile));
}

/// The layout of the page of a tile that packs its keys.
HeadLayout LayOutPage(const QueryTile& tile) {
  return LayOutHead(*tile.plan, tile.sequence->options.similarity, kKeyTile);
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
    page_bytes_ = std::max(page_bytes_, tile.packs_keys ? LayOutPage(tile).bytes : 0);
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

/// Calls run(tile, memory), where `tile` has a page of the thread if it packs its keys.
template <typename F>
void TileTasks::RunTile(const QueryTile& tile, int worker, size_t scratch_bytes, const F& run) {
  const KernelRun kernel_run;
  std::byte* scratch = workspace_.Scratch(worker, page_bytes_ + scratch_bytes);
  const TileMemory memory{scratch + page_bytes_,
                          expanding_ == nullptr ? nullptr : &expanded_[worker]};
  if (!tile.packs_keys) {
    return run(tile, memory);
  }
  const HeadPage page = LayOutPage(tile).At(scratch);
  QueryTile with_page = tile;
  with_page.packed.pages = &page;
  run(with_page, memory);
}

void TileTasks::Run(size_t scratch_bytes) {
  ReserveSums();
  ReserveExpandedKeys();
  workspace_.pool().ParallelFor(std::ssize(tasks_), [&](int64_t i, int worker) {
    const Task& task = tasks_[i];
    RunTile(*task.tile, worker, scratch_bytes, [&](const QueryTile& tile, TileMemory memory) {
      if (task.section == kWholeTile) {
        AttendTile(tile, memory);
      } else {
        AttendToSection(tile, task.section, sums_[task.sums], memory);
      }
    });
  });
  workspace_.pool().ParallelFor(std::ssize(divided_), [&](int64_t i, int worker) {
    const DividedTile& divided = divided_[i];
    const auto sections = std::span(sums_).subspan(divided.first_sums, divided.count);
    RunTile(*divided.tile, worker, scratch_bytes, [&](const QueryTile& tile, TileMemory memory) {
      MergeSections(tile, sections, memory);
    });
  });
}

}  // namespace attention
