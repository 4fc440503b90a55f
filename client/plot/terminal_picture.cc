#include "client/plot/terminal_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/color.h"
#include "client/plot/token_text.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

constexpr int64_t kMostTokenColumns = 14;
constexpr int64_t kMostLabelledRows = 64;
constexpr int64_t kDenseRows = 12;
constexpr int64_t kColumnGap = 3;
constexpr int64_t kRampCells = 24;

/// One cell of a map: the weight's place on the scale of colours, 0..1, or that it is hidden.
struct Cell {
  double share = 0;
  bool is_hidden = false;
};

/// The text of a cell that is some columns wide: a background of its colour, or a shade. A hidden
/// cell is dots.
std::string CellText(const Cell& cell, int64_t columns, bool has_colors) {
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  const char* const shade = kShades[std::clamp(static_cast<int>(std::ceil(cell.share * 4)), 0, 4)];
  std::string text;
  for (int64_t i = 0; i < columns; ++i) {
    text += cell.is_hidden ? "·" : has_colors ? " " : shade;
  }
  const Rgb color = SequentialColor(cell.share);
  return cell.is_hidden || !has_colors ? text
                                       : absl::StrFormat("\x1b[48;2;%d;%d;%dm%s\x1b[0m", color.red,
                                                         color.green, color.blue, text);
}

/// A line of text, and how many columns it takes; escape sequences take none.
struct Line {
  std::string text;
  int64_t columns = 0;
};

/// Lines of text, and the width of the widest.
struct Block {
  int64_t columns = 0;
  std::vector<Line> lines = {};

  void Add(std::string text, int64_t its_columns) {
    columns = std::max(columns, its_columns);
    lines.push_back({std::move(text), its_columns});
  }
};

int64_t NumberColumns(int64_t count) {
  return std::ssize(absl::StrCat(std::max<int64_t>(0, count - 1)));
}

/// The columns of the label before the cells of a row: "12 token ".
int64_t LabelColumns(const std::vector<std::string>& rows) {
  int64_t columns = 0;
  for (const std::string& row : rows) {
    columns = std::max(columns, std::min(kMostTokenColumns, ColumnsOf(row)));
  }
  return NumberColumns(std::ssize(rows)) + 1 + columns + 1;
}

/// Draws maps as blocks of text.
class Painter {
 public:
  Painter(const TerminalOptions& options, float top)
      : has_colors_(options.has_colors), columns_(options.columns), top_(top) {}

  /// `with_rows`: shows the token of each row before its cells, if there is room.
  Block Draw(const Panel& panel, bool with_rows) const {
    const LayerPicture& layer = *panel.layer;
    const WeightGrid grid = GridOf(layer, panel.head);
    const bool is_empty = grid.weights.empty();
    Block block;
    const std::string title =
        absl::StrCat(layer.name, ", ", HeadName(layer, panel.head), is_empty ? ": no cells" : "");
    block.Add(CutTo(title, columns_), std::min(columns_, ColumnsOf(title)));
    if (is_empty) {
      return block;
    }
    const int64_t labels = LabelColumns(layer.rows);
    if (grid.rows <= kMostLabelledRows && labels + 2 * grid.keys <= columns_) {
      AddWide(grid, with_rows ? LabelsOf(layer.rows) : std::vector<std::string>(grid.rows), block);
    } else {
      AddDense(grid, block);
    }
    return block;
  }

  std::string Legend(const std::string& hidden_by) const {
    const std::string end = absl::StrCat(" ", PercentText(top_));
    const std::string half_way =
        absl::StrCat("   (half way: ", PercentText(WeightAt(0.5, top_)), ")");
    const int64_t cells = std::min(kRampCells, columns_ - ColumnsOf(end) - 3);
    std::string text = "0% ";
    for (int64_t i = 0; i < cells; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(cells - 1);
      text += CellText({.share = share}, 1, has_colors_);
    }
    absl::StrAppend(&text, end, cells + ColumnsOf(end + half_way) + 3 <= columns_ ? half_way : "",
                    "\n");
    if (!hidden_by.empty()) {
      absl::StrAppend(&text, CutTo(absl::StrCat("·· hidden: ", hidden_by), columns_), "\n");
    }
    return text;
  }

 private:
  static std::vector<std::string> LabelsOf(const std::vector<std::string>& rows) {
    const int64_t columns = LabelColumns(rows), numbers = NumberColumns(std::ssize(rows));
    std::vector<std::string> labels;
    for (const std::string& row : rows) {
      const std::string number = absl::StrCat(labels.size());
      labels.push_back(absl::StrCat(PadLeft(row == number ? "" : number, numbers), " ",
                                    PadLeft(CutTo(row, kMostTokenColumns), columns - numbers - 2),
                                    " "));
    }
    return labels;
  }

  Cell CellAt(const WeightGrid& grid, int64_t row, int64_t key) const {
    const int64_t cell = row * grid.keys + key;
    return {.share = ScaledShare(grid.weights[cell], top_), .is_hidden = grid.hidden[cell] != 0};
  }

  /// `labels` has one for each row, all of the same width.
  void AddWide(const WeightGrid& grid, const std::vector<std::string>& labels, Block& block) const {
    const int64_t columns = ColumnsOf(labels[0]) + 2 * grid.keys;
    std::string header = Spaces(ColumnsOf(labels[0]));
    // Numbers of two digits fill their cells: only every fifth is shown.
    const int64_t each = grid.keys > 10 ? 5 : 1;
    for (int64_t j = 0; j < grid.keys; ++j) {
      header += j % each == 0 && j < 100 ? PadLeft(absl::StrCat(j), 2) : "  ";
    }
    block.Add(header, columns);
    for (int64_t i = 0; i < grid.rows; ++i) {
      std::string line = labels[i];
      for (int64_t j = 0; j < grid.keys; ++j) {
        line += CellText(CellAt(grid, i, j), 2, has_colors_);
      }
      block.Add(line, columns);
    }
  }

  /// A character is about twice as high as wide, so it shows twice as many rows as keys.
  void AddDense(const WeightGrid& whole, Block& block) const {
    const int64_t labels = NumberColumns(whole.rows) + 1;
    const int64_t most = std::max<int64_t>(1, columns_ - labels);
    const int64_t rows_each = 2 * CeilDiv(whole.keys, most);
    // A few rows of many keys stay apart.
    const int64_t most_rows = std::max(CeilDiv(whole.rows, rows_each), kDenseRows);
    const WeightGrid grid = Pooled(whole, most_rows, most);
    for (int64_t i = 0; i < grid.rows; ++i) {
      std::string line =
          PadLeft(i % 5 == 0 ? absl::StrCat(i * grid.rows_each) : "", labels - 1) + " ";
      for (int64_t j = 0; j < grid.keys; ++j) {
        line += CellText(CellAt(grid, i, j), 1, has_colors_);
      }
      block.Add(line, labels + grid.keys);
    }
    if (grid.rows_each * grid.keys_each > 1) {
      const std::string note = absl::StrCat("each cell: the largest of ", grid.rows_each,
                                            " rows x ", grid.keys_each, " keys");
      block.Add(CutTo(note, columns_), std::min(columns_, ColumnsOf(note)));
    }
  }

  bool has_colors_;
  int64_t columns_;
  float top_;
};

std::string Beside(const std::vector<Block>& blocks) {
  size_t lines = 0;
  for (const Block& block : blocks) {
    lines = std::max(lines, block.lines.size());
  }
  std::string text;
  for (size_t i = 0; i < lines; ++i) {
    int64_t missing = 0;  // spaces before the next text
    for (const Block& block : blocks) {
      const Line line = i < block.lines.size() ? block.lines[i] : Line();
      if (line.columns > 0) {
        absl::StrAppend(&text, Spaces(missing), line.text);
        missing = 0;
      }
      missing += block.columns - line.columns + kColumnGap;
    }
    text += "\n";
  }
  return text + "\n";
}

}  // namespace

std::string TerminalPicture(const AttentionPicture& picture, const TerminalOptions& options) {
  const SequencePicture& sequence = picture.sequences[options.still.sequence];
  const std::vector<Panel> panels = PanelsOf(sequence, options.still.mean);
  const Painter painter(options, LargestWeight(panels));
  std::string text =
      absl::StrCat(picture.title, picture.sequences.size() > 1 ? ", " + sequence.name : "", "\n\n");
  std::vector<Block> line;
  int64_t columns = 0;
  const std::vector<std::string>* rows = nullptr;  // of the maps in `line`
  for (const Panel& panel : panels) {
    const bool has_same_rows = rows != nullptr && *rows == panel.layer->rows;
    Block block = painter.Draw(panel, !has_same_rows);
    if (!line.empty() && (!has_same_rows || columns + block.columns > options.columns)) {
      text += Beside(line);
      line.clear();
      columns = 0;
      block = painter.Draw(panel, true);
    }
    columns += block.columns + kColumnGap;
    line.push_back(std::move(block));
    rows = &panel.layer->rows;
  }
  text += line.empty() ? "" : Beside(line);
  return text + painter.Legend(picture.hidden_by);
}

}  // namespace attention
