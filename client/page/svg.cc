#include "client/page/svg.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/page/escape.h"

namespace attention {

std::string SvgAttribute::Text(double number) {
  if (!std::isfinite(number)) {
    return "0";
  }
  std::string text = absl::StrFormat("%.2f", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

Svg::Svg(double width, double height, const std::string& label)
    : width_(width), height_(height), label_(label) {}

void Svg::Start(const char* element, Attributes attributes) {
  absl::StrAppend(&body_, "<", element);
  for (const SvgAttribute& attribute : attributes) {
    absl::StrAppend(&body_, " ", attribute.name, "=\"", EscapeHtml(attribute.value), "\"");
  }
}

Svg& Svg::Open(const char* element, Attributes attributes) {
  Start(element, attributes);
  body_ += ">";
  open_.push_back(element);
  return *this;
}

Svg& Svg::Close() {
  absl::StrAppend(&body_, "</", open_.back(), ">\n");
  open_.pop_back();
  return *this;
}

Svg& Svg::Add(const char* element, Attributes attributes) {
  Start(element, attributes);
  body_ += "/>\n";
  return *this;
}

Svg& Svg::Text(const std::string& text, Attributes attributes) {
  Start("text", attributes);
  absl::StrAppend(&body_, ">", EscapeHtml(text), "</text>\n");
  return *this;
}

std::string Svg::File(const std::string& style) const {
  const std::string width = SvgAttribute::Text(width_);
  const std::string height = SvgAttribute::Text(height_);
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"",
                      height, "\" viewBox=\"0 0 ", width, " ", height,
                      "\" role=\"img\" aria-label=\"", EscapeHtml(label_), "\">\n<title>",
                      EscapeHtml(label_), "</title>\n<style><![CDATA[\n", style, "]]></style>\n",
                      body_, "</svg>\n");
}

}  // namespace attention
