// The part of a report that is read first.
#pragma once

#include <string>
#include <vector>

#include "client/report/report_page.h"

namespace attention {

/// One report: whether it kept its targets, failures, checked answers, how steady it was, and
/// whether the client was the limit. HTML.
std::string VerdictHtml(const BenchReport& report);

/// A row for each level of each report: rates, percentiles, failures. HTML.
std::string KeyFiguresHtml(const std::vector<NamedReport>& reports);

/// What was asked, when, where and with what, of each report. HTML.
std::string FactsHtml(const std::vector<NamedReport>& reports);

}  // namespace attention
