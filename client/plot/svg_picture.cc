#include "client/plot/svg_picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/page/color.h"
#include "client/page/svg.h"
#include "client/plot/token_text.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

// rsvg-convert knows no custom properties and no media queries: colours are literal, and light.
constexpr char kStyle[] =
    "text{font-family:'DejaVu Sans Mono','Noto Sans Mono','Noto Sans Mono CJK SC',monospace;"
    "font-size:11px;fill:#1b2028}.title{font:600 17px 'DejaVu Sans','Noto Sans',sans-serif}"
    ".quiet{font:12px 'DejaVu Sans','Noto Sans',sans-serif;fill:#5a6472}"
    ".head{font:600 12px 'DejaVu Sans','Noto Sans',sans-serif}.number{fill:#5a6472}"
    ".small{font:10px 'DejaVu Sans','Noto Sans',sans-serif;fill:#5a6472}"
    ".cells{shape-rendering:crispEdges}"
    ".frame{fill:none;stroke:#5a6472;stroke-width:0.5}";

constexpr double kMargin = 24;
constexpr double kCellGap = 14;
constexpr double kHeading = 66;     // title and source
constexpr double kLegend = 64;      // below the maps
constexpr double kLineHeight = 13;  // of tokens on an axis
constexpr double kCharacterWidth = 6.7;
constexpr int64_t kLabelColumns = 14;
constexpr double kLabels = kLabelColumns * kCharacterWidth + 42;
constexpr double kSlantedLabels = 98;  // height of key labels, which are slanted
constexpr size_t kMostWithTokens = 4;
constexpr int64_t kMostColumns = 16;  // of a grid; layers with more heads take several lines
constexpr double kLeaning = 40;       // width by which slanted labels extend beyond the map
constexpr double kMostCells = 340;    // along a side; more are pooled
constexpr int kColors = 64;

/// The arrangement of the maps.
struct Layout {
  bool has_tokens = false;
  int64_t columns = 1;
  int64_t rows = 1;
  double side = 0;    // length of a map's longer side
  double height = 0;  // of the highest map
  double left = 0;    // width of the row labels beside a map
  double top = 0;     // height of the labels above a map

  double cell_width() const { return left + side + (has_tokens ? kLeaning : kCellGap); }
  double cell_height() const { return top + height + kCellGap; }
};

/// Where a map stands, or how large it is.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Returns the size of a layer's map whose longer side is `side`. Cells are square, unless one
/// extent has few: they have room for their labels then.
Box SizeOfMap(const LayerPicture& layer, double side) {
  const auto rows = static_cast<double>(std::max<size_t>(1, layer.rows.size()));
  const auto keys = static_cast<double>(std::max<size_t>(1, layer.keys.size()));
  const auto length = [&](double count) {
    return std::max(count * side / std::max(rows, keys), std::min(count * kLineHeight, side));
  };
  return {.width = length(keys), .height = length(rows)};
}

/// Returns the layout without its height.
Layout WidthsOf(const SequencePicture& sequence, size_t panels, bool mean) {
  if (panels <= kMostWithTokens) {
    const int64_t columns = panels > 1 ? 2 : 1;
    int64_t longest = 1;
    for (const LayerPicture& layer : sequence.layers) {
      longest = std::max({longest, std::ssize(layer.rows), std::ssize(layer.keys)});
    }
    // Larger only where that makes room for all labels.
    const double labels = static_cast<double>(longest) * kLineHeight;
    const double usual = panels > 1 ? 420 : 680, larger = panels > 1 ? 680 : 1000;
    const double most = labels <= larger ? std::max(usual, labels) : usual;
    return {.has_tokens = true,
            .columns = columns,
            .rows = CeilDiv(static_cast<int64_t>(panels), columns),
            .side = std::clamp(static_cast<double>(longest) * 30, 120.0, most),
            .left = kLabels,
            .top = kSlantedLabels + 24};
  }
  int64_t heads = 1;
  for (const LayerPicture& layer : sequence.layers) {
    heads = std::max(heads, std::ssize(layer.heads));
  }
  // A mean for each layer is one long column; folded, it is a grid.
  const int64_t columns =
      mean ? std::min<int64_t>(4, std::ssize(sequence.layers)) : std::min(heads, kMostColumns);
  const auto lines = [columns](int64_t count) { return CeilDiv(count, columns); };
  int64_t rows = mean ? lines(std::ssize(sequence.layers)) : 0;
  for (const LayerPicture& layer : sequence.layers) {
    rows += mean ? 0 : lines(std::ssize(layer.heads));
  }
  return {.columns = columns,
          .rows = rows,
          .side = std::clamp(1100.0 / static_cast<double>(columns), 72.0, 220.0),
          .left = 0,
          .top = 18};
}

Layout LayoutOf(const SequencePicture& sequence, size_t panels, bool mean) {
  Layout layout = WidthsOf(sequence, panels, mean);
  for (const LayerPicture& layer : sequence.layers) {
    layout.height = std::max(layout.height, SizeOfMap(layer, layout.side).height);
  }
  return layout;
}

/// Draws the maps of one picture.
class Sheet {
 public:
  Sheet(const AttentionPicture& picture, const StillOptions& options)
      : picture_(picture),
        sequence_(picture.sequences[options.sequence]),
        panels_(PanelsOf(sequence_, options.mean)),
        layout_(LayoutOf(sequence_, panels_.size(), options.mean)),
        top_weight_(LargestWeight(panels_)),
        width_(std::max(640.0,
                        2 * kMargin + static_cast<double>(layout_.columns) * layout_.cell_width())),
        svg_(width_, kHeading + static_cast<double>(layout_.rows) * layout_.cell_height() + kLegend,
             picture.title) {}

  std::string Draw(bool mean) {
    DrawHeading();
    int64_t line = -1, column = 0;
    const LayerPicture* layer = nullptr;
    for (const Panel& panel : panels_) {
      // A layer of a grid begins a line. Layers may have different numbers of heads.
      const bool is_new_layer = !layout_.has_tokens && !mean && panel.layer != layer;
      const bool is_new_line = line < 0 || column == layout_.columns || is_new_layer;
      line += is_new_line;
      column = is_new_line ? 0 : column;
      layer = panel.layer;
      DrawPanel(panel, kMargin + static_cast<double>(column++) * layout_.cell_width(),
                kHeading + static_cast<double>(line) * layout_.cell_height());
    }
    DrawLegend(kHeading + static_cast<double>(layout_.rows) * layout_.cell_height() + 8);
    return svg_.File(kStyle);
  }

 private:
  void DrawHeading() {
    svg_.Open("defs")
        .Open("pattern", {{"id", "hidden"},
                          {"patternUnits", "userSpaceOnUse"},
                          {"width", 5},
                          {"height", 5},
                          {"patternTransform", "rotate(45)"}})
        .Add("rect", {{"width", 5}, {"height", 5}, {"fill", "#ffffff"}})
        .Add("rect", {{"width", 1.6}, {"height", 5}, {"fill", "#cdd3db"}})
        .Close()
        .Open("linearGradient", {{"id", "ramp"}});
    constexpr int kStops = 20;  // attributes have two decimals
    for (int i = 0; i <= kStops; ++i) {
      const double share = i / static_cast<double>(kStops);
      svg_.Add("stop", {{"offset", share}, {"stop-color", Hex(SequentialColor(share))}});
    }
    svg_.Close().Close();
    svg_.Add("rect", {{"width", "100%"}, {"height", "100%"}, {"fill", "#ffffff"}});
    const std::string where =
        picture_.sequences.size() > 1 ? absl::StrCat(", ", sequence_.name) : "";
    svg_.Text(picture_.title + where, {{"class", "title"}, {"x", kMargin}, {"y", 30}});
    const auto most = static_cast<int64_t>((width_ - 2 * kMargin) / kCharacterWidth);
    svg_.Text(CutTo(picture_.source, most), {{"class", "quiet"}, {"x", kMargin}, {"y", 50}});
  }

  void DrawPanel(const Panel& panel, double x, double y) {
    const LayerPicture& layer = *panel.layer;
    const Box size = SizeOfMap(layer, layout_.side);
    const double left = x + layout_.left, top = y + layout_.top;
    svg_.Text(absl::StrCat(layer.name, ", ", HeadName(layer, panel.head)),
              {{"class", layout_.has_tokens ? "head" : "small"},
               {"x", layout_.has_tokens ? x : left},
               {"y", y + 12}});
    DrawCells(panel, {left, top, size.width, size.height});
    if (layout_.has_tokens) {
      DrawRowTokens(layer.rows, left, top, size.height / static_cast<double>(layer.rows.size()));
      DrawKeyTokens(layer.keys, left, top, size.width / static_cast<double>(layer.keys.size()));
    }
  }

  void DrawCells(const Panel& panel, const Box& box) {
    const auto most = static_cast<int64_t>(std::min(kMostCells, layout_.side));
    const WeightGrid grid = Pooled(GridOf(*panel.layer, panel.head), most, most);
    most_rows_each_ = std::max(most_rows_each_, grid.rows_each);
    most_keys_each_ = std::max(most_keys_each_, grid.keys_each);
    const SvgAttribute x("x", box.x), y("y", box.y), width("width", box.width),
        height("height", box.height);
    svg_.Add("rect", {x, y, width, height, {"fill", "url(#hidden)"}});
    if (!grid.weights.empty()) {
      const std::string place = absl::StrCat("translate(", x.value, " ", y.value, ") scale(",
                                             box.width / static_cast<double>(grid.keys), " ",
                                             box.height / static_cast<double>(grid.rows), ")");
      svg_.Open("g", {{"class", "cells"}, {"transform", place}});
      for (const auto& [color, path] : PathsOf(grid)) {
        svg_.Add("path", {{"fill", Hex(SequentialColor(color / (kColors - 1.0)))}, {"d", path}});
      }
      svg_.Close();
    }
    svg_.Add("rect", {x, y, width, height, {"class", "frame"}});
  }

  /// An SVG path for each colour. Adjacent cells of a row are one rectangle; hidden cells are left
  /// out.
  std::map<int64_t, std::string> PathsOf(const WeightGrid& grid) const {
    constexpr int64_t kHidden = -1;
    const auto color_of = [&](int64_t cell) {
      const double share = ScaledShare(grid.weights[cell], top_weight_);
      return grid.hidden[cell] != 0 ? kHidden : std::lround(share * (kColors - 1));
    };
    std::map<int64_t, std::string> paths;
    for (int64_t row = 0; row < grid.rows; ++row) {
      for (int64_t key = 0, end = 0; key < grid.keys; key = end) {
        const int64_t color = color_of(row * grid.keys + key);
        for (end = key + 1; end < grid.keys && color_of(row * grid.keys + end) == color;) {
          ++end;
        }
        if (color != kHidden) {
          absl::StrAppend(&paths[color], "M", key, " ", row, "h", end - key, "v1H", key, "z");
        }
      }
    }
    return paths;
  }

  /// Returns the label interval that leaves room for text, 1, 2, 5, 10, 20, ...: every n-th label
  /// is drawn. Labels are `unit` apart.
  static int64_t LabelsEach(double unit) {
    for (int64_t power = 1;; power *= 10) {
      for (const int64_t each : {power, 2 * power, 5 * power}) {
        if (static_cast<double>(each) * unit >= kLineHeight) {
          return each;
        }
      }
    }
  }

  void DrawRowTokens(const std::vector<std::string>& tokens, double left, double top, double unit) {
    for (int64_t i = 0; i < std::ssize(tokens); i += LabelsEach(unit)) {
      const double middle = top + (static_cast<double>(i) + 0.5) * unit + 4;
      if (tokens[i] != absl::StrCat(i)) {
        svg_.Text(absl::StrCat(i), {{"class", "number"},
                                    {"x", left - kLabels + 26},
                                    {"y", middle},
                                    {"text-anchor", "end"}});
      }
      svg_.Text(CutTo(tokens[i], kLabelColumns),
                {{"x", left - 6}, {"y", middle}, {"text-anchor", "end"}});
    }
  }

  void DrawKeyTokens(const std::vector<std::string>& tokens, double left, double top, double unit) {
    for (int64_t j = 0; j < std::ssize(tokens); j += LabelsEach(unit)) {
      const std::string x = SvgAttribute::Text(left + (static_cast<double>(j) + 0.5) * unit + 3);
      const std::string y = SvgAttribute::Text(top - 5);
      svg_.Text(CutTo(tokens[j], kLabelColumns),
                {{"x", x}, {"y", y}, {"transform", absl::StrCat("rotate(-60 ", x, " ", y, ")")}});
    }
  }

  void DrawLegend(double y) {
    constexpr double kRampWidth = 260;
    svg_.Add(
        "rect",
        {{"x", kMargin}, {"y", y}, {"width", kRampWidth}, {"height", 12}, {"fill", "url(#ramp)"}});
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      svg_.Text(PercentText(WeightAt(share, top_weight_)),
                {{"class", "quiet"},
                 {"x", kMargin + share * kRampWidth},
                 {"y", y + 27},
                 {"text-anchor", share == 0   ? "start"
                                 : share == 1 ? "end"
                                              : "middle"}});
    }
    const double x = kMargin + kRampWidth + 28;
    if (most_rows_each_ * most_keys_each_ > 1) {
      svg_.Text(absl::StrCat("each dot: the largest of up to ", most_rows_each_, " rows x ",
                             most_keys_each_, " keys"),
                {{"class", "quiet"}, {"x", x}, {"y", y + 27}});
    }
    if (!picture_.hidden_by.empty()) {
      svg_.Add("rect", {{"x", x},
                        {"y", y},
                        {"width", 22},
                        {"height", 12},
                        {"class", "frame"},
                        {"style", "fill:url(#hidden)"}});
      const auto most = static_cast<int64_t>((width_ - x - 30 - kMargin) / kCharacterWidth);
      svg_.Text(CutTo(absl::StrCat("hidden from a row: ", picture_.hidden_by), most),
                {{"class", "quiet"}, {"x", x + 30}, {"y", y + 10}});
    }
  }

  const AttentionPicture& picture_;
  const SequencePicture& sequence_;
  const std::vector<Panel> panels_;
  const Layout layout_;
  const float top_weight_;
  const double width_;
  Svg svg_;
  // The largest numbers of rows and keys of which a dot shows the largest weight.
  int64_t most_rows_each_ = 1, most_keys_each_ = 1;
};

}  // namespace

std::string SvgPicture(const AttentionPicture& picture, const StillOptions& options) {
  return Sheet(picture, options).Draw(options.mean);
}

}  // namespace attention
