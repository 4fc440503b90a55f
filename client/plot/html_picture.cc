#include "client/plot/html_picture.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/page/asset.h"
#include "client/page/color.h"
#include "client/page/escape.h"
#include "client/page/page.h"
#include "client/plot/picture_facts.h"
#include "core/runtime/counted.h"

namespace attention {

extern const Asset kPlotStyle;
extern const Asset kPlotDataScript;
extern const Asset kPlotHeatScript;
extern const Asset kPlotPageScript;

namespace {

constexpr char kOverview[] = R"html(
<noscript><p class="card">This page needs scripts; <code>attend plot -o FILE.svg</code> draws without.</p></noscript>
<section class="card" id="overview-card" aria-label="Overview">
<h2>All layers and heads</h2>
<p class="muted">Rows go down, the keys they attend to across; each map is coloured up to its own largest weight.</p>
<div class="scroll"><div id="overview"></div></div>
</section>
<div id="controls">
<label>Sequence <select id="sequence"></select></label>
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
<label>Colours <select id="scale-kind"><option value="root">square root, to the largest</option><option value="largest">linear, to the largest</option><option value="whole">linear, to 100%</option></select></label>
<label>List <select id="count"><option value="5">top 5</option><option value="10">top 10</option><option value="20">top 20</option><option value="0">all</option></select></label>
</div>
)html";

constexpr char kMap[] = R"html(
<div class="pair">
<section class="card" aria-labelledby="heat-title">
<h2 id="heat-title"></h2>
<p id="statistics" class="muted"></p>
<div id="heat">
<div class="key-labels" aria-hidden="true"></div>
<div class="row-labels" aria-hidden="true"></div>
<div class="plane"><canvas class="cells" tabindex="0" role="img" aria-label="Map of weights: rows down, keys across" aria-describedby="readout"></canvas><div class="cursor" hidden></div></div>
</div>
<p id="readout" aria-live="polite"></p>
<div id="legend">
<div id="scale"><canvas id="ramp" aria-hidden="true"></canvas><div id="ramp-ticks"></div></div>
<div id="pooled-note" hidden></div>
<div id="hidden-note"><span class="swatch"></span>hidden from a row: <bdi id="hidden-by"></bdi></div>
</div>
</section>
<section class="card" aria-label="Largest weights">
<p class="muted">Point at a cell: the largest weights of its row, and of its key.</p>
<div id="lists"></div>
</section>
</div>
)html";

}  // namespace

std::string HtmlPicture(const AttentionPicture& picture, int64_t sequence) {
  Page page{.title = picture.title,
            .body = absl::StrCat(
                "<h1><bdi>", EscapeHtml(picture.title), "</bdi></h1>\n", "<p class=\"muted\"><bdi>",
                EscapeHtml(picture.source), "</bdi></p>\n<p class=\"muted\">",
                Counted(NumCells(picture), "weight"), ", kept in 16 bits.</p>\n", kOverview, kMap),
            .styles = {&kPlotStyle},
            .scripts = {&kPlotDataScript, &kPlotHeatScript, &kPlotPageScript},
            .data = PageData(picture)};
  page.data["firstSequence"] = sequence;
  return PageHtml(page);
}

namespace {

/// Appends the weights of a head as PageData describes them.
void PackHead(std::span<const float> weights, float largest, std::string& bytes) {
  for (const float weight : weights) {
    const double share = largest > 0 ? static_cast<double>(weight) / largest : 0.0;
    const auto code = static_cast<uint32_t>(std::lround(std::sqrt(share) * 65535));
    bytes.push_back(static_cast<char>(code & 0xFF));
    bytes.push_back(static_cast<char>(code >> 8));
  }
}

/// Adds `weights` to what the page knows of a layer, and the largest weight of each head.
void AddWeights(const LayerPicture& layer, nlohmann::json& data) {
  const int64_t cells = std::ssize(layer.rows) * std::ssize(layer.keys);
  std::string bytes;
  bytes.reserve(layer.weights.num_elements() * 2);
  data["largest"] = nlohmann::json::array();
  for (int64_t head = 0; head < std::ssize(layer.heads); ++head) {
    const std::span<const float> weights(layer.weights.as<float>() + head * cells, cells);
    const float largest = cells == 0 ? 0.0F : *std::max_element(weights.begin(), weights.end());
    data["largest"].push_back(largest);
    PackHead(weights, largest, bytes);
  }
  data["weights"] = absl::Base64Escape(bytes);
}

std::string PackedColors() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    const Rgb color = SequentialColor(i / 255.0);
    for (const uint8_t channel : {color.red, color.green, color.blue}) {
      bytes.push_back(static_cast<char>(channel));
    }
  }
  return absl::Base64Escape(bytes);
}

}  // namespace

nlohmann::json PageData(const AttentionPicture& picture) {
  nlohmann::json data = PictureFacts(picture);
  data["colors"] = PackedColors();
  for (size_t s = 0; s < picture.sequences.size(); ++s) {
    for (size_t i = 0; i < picture.sequences[s].layers.size(); ++i) {
      AddWeights(picture.sequences[s].layers[i], data["sequences"][s]["layers"][i]);
    }
  }
  return data;
}

}  // namespace attention
