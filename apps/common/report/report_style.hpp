#pragma once

namespace keelson::app {

/// The style sheet of reports. Colour-blind readers can tell the colours of the series apart, too (all pairs are
/// checked, light and dark).
inline constexpr const char* report_style = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16202c;--muted:#5d6b7a;--grid:#e3e8ee;--edge:#dfe4ea;
--s0:#1f6fd0;--s1:#d9601a;--s2:#12876f;--s3:#8a4fc7;--s4:#b8860b;--s5:#c03a5b}
@media (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1a2028;--ink:#e6ebf1;--muted:#97a4b3;--grid:#2a323d;--edge:#2a323d;
--s0:#5ba3f5;--s1:#f08c4b;--s2:#3fbf9f;--s3:#b98aea;--s4:#d9b13b;--s5:#ea7590}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0}
h2{font-size:18px;margin:34px 0 12px}
.sub{color:var(--muted);margin:4px 0 20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile,.card{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.tile{padding:12px 16px}
table.narrow{max-width:720px}
.tile b{display:block;font-size:19px;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--muted);font-size:13px}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:14px}
.grid4{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(250px,100%),1fr));gap:14px}
.card{padding:12px 14px;overflow-x:auto}
.card svg{display:block;width:100%;height:auto}
.card svg.bar{height:26px;border-radius:5px}
svg text{font-family:inherit;fill:var(--ink)}
svg .title{font-size:14px;font-weight:600}
svg .tick{font-size:11.5px;fill:var(--muted)}
svg .axis,svg .key{font-size:12px;fill:var(--muted)}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}
svg .line.faint{stroke-width:1;opacity:.35}
svg .line.dashed{stroke-dasharray:5 4}
svg .points{opacity:.65}
svg .diagonal{stroke:var(--muted);stroke-dasharray:4 4}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--muted);font-weight:600;border-bottom:1px solid var(--edge);padding:5px 12px 5px 0;white-space:nowrap}
td{border-bottom:1px solid var(--grid);padding:4px 12px 4px 0;vertical-align:top}
tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right}
td.k{color:var(--muted);white-space:nowrap}
td.v{overflow-wrap:anywhere}
.plan td{white-space:nowrap;font-size:12.5px}
.note{color:var(--muted);font-size:13px;margin:8px 0 0}
.keys{display:flex;flex-wrap:wrap;gap:6px 22px;margin-top:10px;font-size:13.5px}
.keys i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.keys em{color:var(--muted);font-style:normal}
)css";

}  // namespace keelson::app
