#include "apps/bench/compare/comparison_page.hpp"

#include <fmt/format.h>

#include "apps/bench/compare/page_parts.hpp"
#include "apps/common/report/report_style.hpp"

namespace keelson::bench::comparison {
namespace {

constexpr const char* page_style = R"css(
h3{font-size:15px;margin:18px 0 8px}
.card h3{margin-top:2px}
.card{margin-bottom:14px}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:7px}
.hatch{display:inline-block;width:26px;height:11px;vertical-align:-1px;border:1px dashed var(--muted);background:repeating-linear-gradient(135deg,var(--muted) 0 1px,transparent 1px 5px)}
td.missing{color:var(--muted);font-style:italic}
nav a{color:var(--s0);margin-right:14px;text-decoration:none}
.sources td{font-size:12px;overflow-wrap:anywhere;min-width:60px}
svg .points{stroke:var(--card);stroke-width:1}
)css";

}  // namespace

std::string render_comparison(const Comparison& c) {
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>Machines compared</title>";
  out += std::string("<style>") + app::report_style + page_style + "</style></head><body><main>";
  out += "<h1>Machines compared</h1>";
  out += fmt::format("<p class='sub'>{} measured by Keelson, beside published figures of other programs</p>",
                     c.machines.size() == 1 ? "1 machine" : fmt::format("{} machines", c.machines.size()));
  out +=
      "<p><b>What is measured:</b> the same networks, sizes and recipes on each machine, trained by the same program "
      "(<code>keelson-bench compare</code>) on made-up data. Coloured bars and lines are measured; each machine has "
      "its "
      "colour. <span class='hatch'></span> Grey hatched bars are <b>published</b> figures of other programs, read in "
      "the "
      "sources that the last table names. What was not measured says why.</p>";
  out += "<nav>";
  for (const char* id :
       {"machines", "peaks", "speed", "arithmetic", "cost", "scaling", "roofline", "collectives", "input", "published"})
    out += fmt::format("<a href='#{0}'>{0}</a>", id);
  out += "</nav>";
  for (const auto section : {machines_section, peaks_section, speed_section, arithmetic_section, cost_section,
                             scaling_section, roofline_section, sums_section, reading_section, published_section})
    out += section(c);
  return out + "</main></body></html>\n";
}

}  // namespace keelson::bench::comparison
