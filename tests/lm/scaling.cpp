#include "apps/lm/scaling.hpp"

#include <gtest/gtest.h>

namespace keelson::lm {
namespace {

ScalingTable table() {
  return {"net <a>",
          "machine & co",
          "device",
          false,
          {{1, 20, 1000, 0.4, 0}, {2, 20, 1900, 0.42, 0.05}, {4, 20, 3000, 0.53, 0.25}}};
}

TEST(ScalingTable, ComparesWithOneRank) {
  const auto t = table();
  EXPECT_DOUBLE_EQ(t.speed_up(t.rows[0]), 1);
  EXPECT_DOUBLE_EQ(t.efficiency(t.rows[0]), 1);
  EXPECT_DOUBLE_EQ(t.speed_up(t.rows[2]), 3);
  EXPECT_DOUBLE_EQ(t.efficiency(t.rows[2]), 0.75);
}

TEST(ScalingTable, LinesStandUnderTheirHeader) {
  const auto t = table();
  EXPECT_NE(t.header().find("a batch for each rank"), std::string::npos);
  const auto columns = t.header().substr(t.header().find("\n\n") + 2), line = t.line(t.rows[2]);
  EXPECT_EQ(columns.size(), line.size()) << columns << line;
  EXPECT_EQ(line, "     4       20            750         3000      3.00        75 %     530.0    25.0 %\n");
}

TEST(ScalingTable, PageHoldsEveryRowAndEscapesNames) {
  auto t = table();
  auto page = render_scaling(t);
  for (const char* part : {"net &lt;a&gt;", "machine &amp; co", "Weak scaling", "<td class='n'>1900</td>",
                           "<td class='n'>75 %</td>", "<td class='n'>25.0 %</td>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("net <a>"), std::string::npos);
  t.strong = true;
  page = render_scaling(t);
  EXPECT_NE(page.find("Strong scaling"), std::string::npos);
  t.rows.resize(1);  // a job of one rank still has a page
  EXPECT_NE(render_scaling(t).find("<td class='n'>1000</td>"), std::string::npos);
}

}  // namespace
}  // namespace keelson::lm
