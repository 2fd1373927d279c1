#include "apps/common/report/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/rate_page.hpp"
#include "apps/common/report/svg_bars.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "engine/train/metrics/perplexity.hpp"
#include "engine/train/metrics/target_metric.hpp"

namespace keelson::app {
namespace {

TEST(SvgPlot, TicksAreRoundNumbers) {
  EXPECT_EQ(plot::ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const auto t = plot::ticks(-0.13, 0.31, 5);
  ASSERT_EQ(t.size(), 5u);
  EXPECT_NEAR(t.front(), -0.1, 1e-12);
  EXPECT_NEAR(t.back(), 0.3, 1e-12);
  EXPECT_TRUE(plot::ticks(1, 1, 5).empty());
}

TEST(SvgPlot, ThinsToMeans) {
  plot::Series s{"", {0, 1, 2, 3}, {1, 3, 5, 7}};
  EXPECT_EQ(plot::thinned(s, 2).y, (std::vector<double>{2, 6}));
  EXPECT_EQ(plot::thinned(s, 4).y, s.y);
}

TEST(SvgPlot, LeavesOutWhatIsNotFinite) {
  plot::Plot p{"a < b", {"x"}, {"y"}};
  p.series.push_back({"s", {1, 2, 3}, {NAN, INFINITY, 2}, plot::Series::Mark::points});
  const auto text = plot::svg(p);
  EXPECT_NE(text.find("a &lt; b"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_NE(text.find("<circle"), std::string::npos);
  p.series[0].y[2] = NAN;
  EXPECT_NE(plot::svg(p).find("nothing measured yet"), std::string::npos);
}

TEST(SvgPlot, PointsHaveTitlesAndLabelsThatDoNotOverlap) {
  plot::Plot p{"roofline", {"x", true}, {"y", true}};
  plot::Series s{"s", {1, 1.01, 1.02, 100}, {10, 10, 10, 20}, plot::Series::Mark::points};
  s.titles = {"<one>", "two", "three", "four"};
  s.labels = {"label 1", "label 2", "label 3", ""};
  s.radii = {3, 4, 5, 12.5};
  p.series.push_back(s);
  const auto text = plot::svg(p);
  EXPECT_NE(text.find("<title>&lt;one&gt;</title>"), std::string::npos);
  EXPECT_NE(text.find("r='12.5'><title>four</title>"), std::string::npos);
  EXPECT_NE(text.find(">label 1<"), std::string::npos);  // above its point
  EXPECT_NE(text.find(">label 2<"), std::string::npos);  // below
  EXPECT_EQ(text.find(">label 3<"), std::string::npos);  // no room
}

/// The largest x of texts that begin there.
double rightmost(const std::string& svg, const std::string& mark) {
  double most = 0;
  for (auto at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1))
    most = std::max(most, std::stod(svg.substr(svg.find("x='", at) + 3)));
  return most;
}

TEST(SvgPlot, LegendsWrapAndLabelsStayInside) {
  plot::Plot p{"machines", {"x"}, {"y"}};
  for (const char* name : {"a machine with a long name", "another machine with a longer name", "a third machine, too"})
    p.series.push_back({name, {1, 2}, {1, 2}});
  p.series.back().mark = plot::Series::Mark::points;
  p.series.back().labels = {"a label at the left", "a label at the right"};
  const auto text = plot::svg(p);
  EXPECT_NE(text.find("y='58'>another machine"), std::string::npos) << text;  // on the second line
  EXPECT_LT(rightmost(text, "<text class='key'"), p.width - 100);
  const auto place = text.rfind("<text", text.find(">a label at the right<"));
  EXPECT_LT(std::stod(text.substr(text.find("x='", place) + 3)), p.width - 3 * 20);
}

TEST(SvgBars, TellsMissingFiguresAndPublishedOnesApart) {
  plot::BarChart chart{"speed", "samples/s"};
  chart.bars = {{"<ours>", 2, "2.00", 1}, {"theirs", 4, "4.00", 0, true}};
  chart.bars.push_back({std::string(200, 'x')});
  chart.bars.back().text = "not measured: no memory";
  const auto text = plot::svg(chart);
  EXPECT_NE(text.find("&lt;ours&gt;"), std::string::npos);
  EXPECT_NE(text.find("stroke-dasharray"), std::string::npos);  // theirs
  EXPECT_NE(text.find("var(--s1)"), std::string::npos);
  EXPECT_NE(text.find(">not measured: no memory<"), std::string::npos);
  EXPECT_NE(text.find("xxx…</text>"), std::string::npos);  // cut, whole in its title
  EXPECT_NE(text.find(">samples/s<"), std::string::npos);
  for (const char* part : {"nan", "inf", ">-0<"}) EXPECT_EQ(text.find(part), std::string::npos) << part;
  chart.bars.erase(chart.bars.begin(), chart.bars.begin() + 2);
  EXPECT_EQ(plot::svg(chart).find("samples/s</text>"), std::string::npos);  // no axis without a bar
}

TEST(Report, IsOneFileThatShowsEverything) {
  ReportInput in;
  in.title = "A <run>";
  in.metric = std::make_shared<MeanAbsoluteError>();
  in.history.steps = {{1, 0.5, 0.9, 0.01, 10, {1, 0, {0.1, 0, 0}, 0}}, {2, 1, 0.8, 0.01, 10, {1, 0, {0.1, 0, 0}, 0}}};
  EpochRecord e;
  e.epoch = 1;
  e.train_loss = 0.85;
  e.metric = 0.2;
  e.metric_values = {0.2};
  in.history.epochs = {e};
  in.targets = {{"Omega_m", {0.2, 0.4}, {0.25, 0.35}, 0.05, 0.1, 0.0321}};
  in.machine = {{"Processor", "abacus"}};
  in.configuration = {{"lr", "0.01"}};
  in.plan = {{"forward", "conv1", "conv", "kokkos", "direct", "plain", 2, 1, 4}};
  const auto html = render_report(in);
  for (const char* part :
       {"A &lt;run&gt;", "Omega_m", "abacus", "conv1", "0.50</td>", "0.0321</td>", "prefers-color-scheme", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const char* part : {"<script", "http:", "https:", "src=", "url("})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(Report, ShowsTheNoiseScale) {
  ReportInput in;
  in.metric = std::make_shared<Perplexity>();
  in.batch = 64;
  for (int i = 1; i <= 3; ++i) {
    EpochRecord e;
    e.epoch = i;
    in.history.epochs.push_back(e);
  }
  EXPECT_EQ(render_report(in).find("noise scale"), std::string::npos);
  in.history.epochs[1].noise = in.history.epochs[2].noise = {.gradient = 2, .noise = 512};
  const auto html = render_report(in);
  for (const char* part : {"<h2>Noise of the gradient</h2>", ">Gradient noise scale</text>", ">batch</text>",
                           "A batch of 64 needs 5 times the fewest possible steps", "<title>3, 256<"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, ShowsASearchForLearningRates) {
  RateRange range;
  for (const double loss : {5.0, 5.0, 4.9, 4.0, 3.6, 3.5, 3.4, 3.9, 9.0}) {
    const double rate = std::pow(10, static_cast<double>(range.points.size()) - 6);
    range.points.push_back({rate, loss, loss});
  }
  suggest_rates(range);
  range.diverged = true;
  const auto html = render_rates(range, "Rates <1>", "nine points");
  for (const char* part :
       {"Rates &lt;1&gt;", "nine points", ">Loss by learning rate</text>", ">falls fastest</text>",
        ">least loss</text>", "suggested learning rate: 0.001", "training diverged at 1e+02", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(rates_csv(range).substr(0, 53), "step,learning_rate,loss,smoothed_loss\n1,1e-06,5,5\n2,1");
}

TEST(Report, ShowsHowTheNetworkChanged) {
  ReportInput in;
  in.metric = std::make_shared<Perplexity>();
  for (int i = 1; i <= 3; ++i) {
    EpochRecord e;
    e.epoch = i;
    e.step = 10 * i;
    e.seconds.compute = i == 3 ? 0.4 : 0.2;
    in.history.epochs.push_back(e);
  }
  EXPECT_EQ(render_report(in).find("Network changes"), std::string::npos);
  const NetworkSize before{300, {{"conv1", 4}, {"dense1", 7}}}, after{500, {{"conv1", 6}, {"dense1", 7}}};
  in.history.events = {{"network change", 20, "growth: conv1 4 -> 6", NetworkRecord{2, before, after}}};
  const auto html = render_report(in);
  for (const char* part :
       {"<h2>Network changes</h2>", "growth: conv1 4 -&gt; 6", ">Parameters</text>", ">Widths</text>",
        ">Time of a step</text>", ">conv1</text>", "<title>3, 40<", "<title>2, 20<"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find(">dense1</text>"), std::string::npos) << "it has not changed";
  in.history.events[0].network.reset();
  EXPECT_NE(render_report(in).find("growth: conv1"), std::string::npos) << "of an older file";
}

TEST(Report, OfALanguageModel) {
  ReportInput in;
  in.title = "Words";
  in.metric = std::make_shared<Perplexity>();
  in.unit = {"word", 20};
  in.history.steps = {{1, 0.5, 6, 1, 4000, {1, 0, {0.1, 0, 0}, 0}}};
  for (int i = 1; i <= 2; ++i) {
    EpochRecord e;
    e.epoch = i;
    e.train_loss = 6.0 / i;
    e.validation_loss = 5.0 / i;
    e.metric = std::exp(e.validation_loss);
    e.rate = 4321;
    in.history.epochs.push_back(e);
  }
  const auto html = render_report(in);
  for (const char* part :
       {"<b>12.18</b><span>best validation perplexity", "<b>4321</b><span>words per second", ">words per second</text>",
        ">loss per word</text>", ">perplexity</text>", "<title>1, 403.4<"})  // training, from its loss
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const char* part : {"Predicted against true", "samples per second", "always the mean"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace keelson::app
