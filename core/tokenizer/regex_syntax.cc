#include "core/tokenizer/regex_syntax.h"

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"

namespace attention {
namespace {

// The beginning of each line, except behind a line end that ends the text.
constexpr char kLineBegin[] = R"((?:\A|(?<=\n)(?!\z)))";
// ICU's \w would also match the superscripts and fractions of Latin-1.
constexpr char kWordInSet[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr char kWord[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u00B2\u00B3\u00B9\u00BC-\u00BE)";
constexpr absl::string_view kWordProperty = "{word}";
// The end of the text, or before a line end that ends it. ICU's \Z knows other line ends.
constexpr char kTextEnd[] = R"((?=\n?\z))";
constexpr char kHex[] = "0-9A-Fa-f";
constexpr char kWordBoundary[] = "(?:(?<=[$0])(?![$0])|(?<![$0])(?=[$0]))";
constexpr char kNoWordBoundary[] = "(?:(?<=[$0])(?=[$0])|(?<![$0])(?![$0]))";

// The longest expression. Those of known tokenizers have a few hundred bytes; ICU needs some 13,000
// bytes of memory for the 5 of a \p{L}.
constexpr size_t kMaxIcuBytes = 4096;

class Translation {
 public:
  explicit Translation(std::string_view expression) : rest_(expression) {}

  absl::StatusOr<std::string> Run() {
    while (!rest_.empty() && unknown_.empty()) {
      AddNext();
      if (rest_.empty()) {
        CloseFlags();
      }
      if (result_.size() > kMaxIcuBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("a regular expression of at most ", kMaxIcuBytes,
                         R"( bytes, once \s, \w, \h and \b are written out)"));
      }
    }
    if (!unknown_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("a regular expression without ", unknown_));
    }
    return result_;
  }

 private:
  char Take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  void AddNext() {
    const char c = Take();
    if (c == '\\' && !rest_.empty()) {
      AddEscape(Take());
    } else if (c == '^' && set_depth_ == 0) {
      result_ += kLineBegin;
    } else if (c == ')' && set_depth_ == 0) {
      CloseFlags();
      if (open_flags_.size() > 1) {
        open_flags_.pop_back();
      }
      result_ += c;
    } else {
      result_ += c;
      AfterCharacter(c);
    }
  }

  void AfterCharacter(char c) {
    if (c == '[') {
      ++set_depth_;
      unknown_ = set_depth_ > 1 && rest_.starts_with(':') ? "[:class:]" : "";
    } else if (c == ']' && set_depth_ > 0) {
      --set_depth_;
    } else if (c == '(' && set_depth_ == 0 && rest_.starts_with("?#")) {
      AddComment();
    } else if (c == '(' && set_depth_ == 0) {
      open_flags_.push_back(0);
      if (rest_.starts_with('?')) {
        AddFlags();
      }
    } else if (c == '{' && set_depth_ == 0) {
      AfterBrace();
    }
  }

  bool IsWordProperty() const {
    return absl::StartsWithIgnoreCase({rest_.data(), rest_.size()}, kWordProperty);
  }

  // Refuses them inside [] too, where they would be characters: only ICU decides where a set ends.
  bool RefuseEscape(char c) {
    if ((c >= '1' && c <= '9') || c == 'k') {
      // ICU's limit of time does not count the characters that one compares.
      unknown_ = "back references";
    } else if (std::string_view("gQX").find(c) != std::string_view::npos) {
      unknown_ = {'\\', c};
    }
    return !unknown_.empty();
  }

  void AddEscape(char c) {
    if (RefuseEscape(c)) {
      return;
    }
    const char* word = set_depth_ == 0 ? kWord : kWordInSet;
    if (c == 'w' || c == 'W') {
      absl::StrAppend(&result_, c == 'w' ? "[" : "[^", word, "]");
    } else if (c == 'h' || c == 'H') {
      absl::StrAppend(&result_, c == 'h' ? "[" : "[^", kHex, "]");
    } else if (c == 's' || c == 'S') {
      // ICU saves a state for each repetition of \s, but not for those of a property.
      result_ += c == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
    } else if ((c == 'p' || c == 'P') && IsWordProperty()) {
      // ICU's has the joiners too.
      absl::StrAppend(&result_, c == 'p' ? "[" : "[^", word, "]");
      rest_.remove_prefix(kWordProperty.size());
    } else if (c == 'Z' && set_depth_ == 0) {
      result_ += kTextEnd;
    } else if ((c == 'b' || c == 'B') && set_depth_ == 0) {
      result_ += absl::Substitute(c == 'b' ? kWordBoundary : kNoWordBoundary, word);
    } else {
      result_.append({'\\', c});
      const size_t braced = rest_.starts_with('{') ? rest_.find_first_of("}\\") : rest_.npos;
      if (braced != rest_.npos && rest_[braced] == '}') {  // \p{L}, whose brace ends no {n,m}
        result_.append(rest_.substr(0, braced + 1));
        rest_.remove_prefix(braced + 1);
      }
    }
  }

  // Ruby's x{n,m}+ is (x{n,m})+, and x{n}? is (x{n})?; ICU's are possessive and lazy.
  void AfterBrace() {
    const size_t end = rest_.find_first_not_of("0123456789");
    const size_t close = rest_.find_first_not_of("0123456789,");
    if (close == rest_.npos || rest_[close] != '}') {
      return;
    }
    const std::string_view behind = rest_.substr(close + 1);
    if (behind.starts_with('+')) {
      unknown_ = "{n,m}+";
    } else if (behind.starts_with('?') && end == close) {
      unknown_ = "{n}?";
    }
  }

  // Its parentheses and flags are text. Its escapes are refused like others: within a comment of
  // the flag x this may be none.
  void AddComment() {
    char c = '(';
    while (c != ')' && !rest_.empty()) {
      c = Take();
      result_ += c;
      if (c == '\\' && !rest_.empty()) {
        if (RefuseEscape(rest_.front())) {
          return;
        }
        result_ += Take();
      }
    }
  }

  // In Ruby's syntax the flag m lets the dot match line ends; in ICU's this is s. Ruby's (?i) makes
  // a group of all that follows in its own group, further alternatives included: a(?i)b|c is
  // a(?i:b|c). In ICU's syntax it ends the alternative a.
  void AddFlags() {
    result_ += Take();
    while (!rest_.empty() && std::string_view("imx-").find(rest_.front()) != rest_.npos) {
      const char flag = Take();
      result_ += flag == 'm' ? 's' : flag;
    }
    if (rest_.starts_with(')') && !result_.ends_with('?')) {
      Take();
      result_ += ':';
      open_flags_.pop_back();
      ++open_flags_.back();
    }
  }

  void CloseFlags() {
    result_.append(open_flags_.back(), ')');
    open_flags_.back() = 0;
  }

  std::string_view rest_;
  std::string result_;
  std::string unknown_;
  int set_depth_ = 0;
  // For each open group, how many (?i) are to be closed at its end. The first is the expression.
  std::vector<size_t> open_flags_{0};
};

}  // namespace

absl::StatusOr<std::string> ToIcuSyntax(const std::string& expression) {
  return Translation(expression).Run();
}

}  // namespace attention
