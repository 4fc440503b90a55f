// The picture of a chart.
#pragma once

#include <string>

#include "client/report/chart.h"

namespace attention {

/// Both stand in the page, which shows the one that fits the window: a wide one, made smaller for a
/// phone, could not be read there.
enum class PictureSize { kWide, kNarrow };

/// CSS class of the `index`th line: one of eight colours, then the same dashed.
std::string SeriesClass(size_t index);

/// An inline <svg>. For read-outs it says in `data-x` where on it each x lies, and each <path> of
/// class `line` goes through the points of one series, in their order, with "L" or "M" at each.
std::string ChartPicture(const Chart& chart, PictureSize size);

}  // namespace attention
