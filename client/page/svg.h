// A writer of SVG pictures.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <vector>

namespace attention {

/// An attribute of an element; its value is escaped when it is written.
struct SvgAttribute {
  SvgAttribute(const char* its_name, const std::string& text) : name(its_name), value(text) {}
  SvgAttribute(const char* its_name, const char* text) : name(its_name), value(text) {}
  template <typename Number>
    requires std::integral<Number> || std::floating_point<Number>
  SvgAttribute(const char* its_name, Number number)
      : name(its_name), value(Text(static_cast<double>(number))) {}

  /// Returns `number` with at most two decimals; "0" if it is not finite.
  static std::string Text(double number);

  const char* name;
  std::string value;
};

/// An SVG picture, whose elements are added in the order of painting. Names of elements and
/// attributes are literals of the program; values and texts may contain anything.
class Svg {
 public:
  using Attributes = std::initializer_list<SvgAttribute>;

  /// `label` describes the picture to screen readers.
  Svg(double width, double height, const std::string& label);

  Svg& Open(const char* element, Attributes attributes = {});
  Svg& Close();
  /// Adds an element without content.
  Svg& Add(const char* element, Attributes attributes);
  /// Adds a <text> element.
  Svg& Text(const std::string& text, Attributes attributes);

  /// Returns the picture as a file; `style` is CSS. REQUIRES: all elements are closed.
  std::string File(const std::string& style) const;

 private:
  void Start(const char* element, Attributes attributes);

  double width_;
  double height_;
  std::string label_;
  std::string body_;
  std::vector<const char*> open_;
};

}  // namespace attention
