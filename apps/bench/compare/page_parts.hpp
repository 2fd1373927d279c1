#pragma once

#include <string>
#include <vector>

#include "apps/bench/compare/comparison_page.hpp"
#include "apps/common/report/svg_bars.hpp"

/// The sections of the page, and functions that they share.
namespace keelson::bench::comparison {

/// A network in one size that machines have timed or that has published figures.
struct Group {
  std::string net, size;
  std::string title;  ///< "mlperf 64^3"
  std::string unit = "sample";
};

/// In the order of the files; then groups that have only published figures.
std::vector<Group> groups_of(const Comparison& c);

/// An HTML table in a card; cells are escaped, and all but the first `texts` columns are aligned as numbers.
std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                       int texts = 1);
std::string card(const std::string& content, const std::string& note = "");  ///< `note` is HTML
/// Cards with the charts that have a bar, side by side if there is room. Empty if no chart has a bar; the table then
/// tells the reasons.
std::string chart_cards(const app::plot::BarChart& left, const app::plot::BarChart& right);

/// Three or four digits: "0.0123", "45.2", "1230".
std::string figure(double value);
std::string missing_text(const std::string& reason);  ///< "not measured: ..."
/// The name of machine number i; if another machine has the same name, with the number.
std::string name_of(const Comparison& c, std::size_t i);
/// "H100 80GB: NVIDIA Eos, 64 DGX H100 (published)"
std::string name_of(const PublishedFigure& f);
/// "GPU" or "node"
std::string device_word(const MachineFile& m);
/// The published figures of a network and size.
std::vector<PublishedFigure> published_of(const Comparison& c, const Group& g, const std::string& quantity);

std::string machines_section(const Comparison& c);
std::string peaks_section(const Comparison& c);
std::string speed_section(const Comparison& c);
std::string arithmetic_section(const Comparison& c);
std::string cost_section(const Comparison& c);
std::string scaling_section(const Comparison& c);
std::string roofline_section(const Comparison& c);
std::string sums_section(const Comparison& c);
std::string reading_section(const Comparison& c);
std::string published_section(const Comparison& c);

}  // namespace keelson::bench::comparison
