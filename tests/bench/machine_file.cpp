#include "apps/bench/compare/machine_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/bench/compare/comparison_page.hpp"
#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::bench::comparison {
namespace {

MachineFile full_machine() {
  MachineFile m;
  m.name = "Big <one>";
  m.measured = "2026-01-02T03:04:05Z";
  m.keelson = "0.1.0";
  m.layout = "2 ranks on 1 node";
  m.device = "OpenMP";
  m.ranks = 2;
  m.facts = {{"Processor", "A & B"}};
  m.price_per_hour.value = 3.5;
  m.peaks.value = Peaks{1e12, 5e10, {{"fp32", {2e12, ""}}, {"bf16", Measured<double>::missing("no bf16")}}, 2048};
  m.energy.value = EnergySource{"RAPL: package-0", 50};
  StepFigures f{0.5, 0.4, 0.6, 7, 4, 8e11, {0.2, ""}, {StepEnergy{20, 10, 80, 3.5}, ""}, {}};
  f.calls = {{"forward", "conv1", "conv", "onednn", "brgconv", 100, 50, 200},
             {"update", "w", "update", "kokkos", "", 0.1, 10, 1}};
  m.steps.push_back({"mlperf", "64", "fp32", "mlperf 64^3", "sample", 1, 2, {f, ""}});
  m.steps.push_back({"mlperf", "128", "fp32", "mlperf 128^3", "sample", 1, 2,
                     Measured<StepFigures>::missing("a step would take about 99 s")});
  m.collectives.value = {{4096, 1e-5, 4e8, "halving"}, {1 << 20, 1e-3, 1e9, "ring"}};
  m.input.value = InputRate{"made-up", 100, 2e8, 1};
  m.scaling.value = Scaling{"mlperf", "64", "fp32", 2, {{1, 2.5, 1}, {2, 4, 0.8}}};
  return m;
}

MachineFile poor_machine() {
  MachineFile m;
  m.name = "small";
  m.price_per_hour.reason = "no --price-per-hour was given";
  m.peaks.reason = "peaks missing here";
  m.energy.reason = "there is no /sys/class/powercap";
  m.collectives.reason = "one rank has no other rank to exchange with";
  m.input.reason = "no room for samples";
  m.scaling.reason = "weak scaling needs more than one rank";
  m.steps.push_back(
      {"mlperf", "64", "fp32", "mlperf 64^3", "sample", 1, 1, Measured<StepFigures>::missing("no memory")});
  return m;
}

std::string refusal(const nlohmann::json& json) {
  return keelson::testing::message_of<InputError>([&] { machine_file_of(json, "m.json"); });
}

TEST(MachineFile, SurvivesWritingAndReading) {
  const keelson::testing::TemporaryFolder folder;
  for (const auto& machine : {full_machine(), poor_machine()}) {
    const auto file = folder / "machine.json";
    write_machine_file(machine, file);
    EXPECT_EQ(json_of(read_machine_file(file)), json_of(machine));
  }
}

TEST(MachineFile, MissingFiguresAreNullWithAReason) {
  const auto json = json_of(poor_machine());
  EXPECT_TRUE(json["peaks"]["value"].is_null());
  EXPECT_EQ(json["peaks"]["reason"], "peaks missing here");
  EXPECT_TRUE(json["steps"][0]["figures"]["value"].is_null());
}

TEST(MachineFile, RefusesWhatItCannotRead) {
  auto json = json_of(full_machine());
  json["schema"] = schema_version + 1;
  json["keelson"] = "9.9";
  const auto newer = refusal(json);
  EXPECT_NE(newer.find("m.json: written by a newer Keelson (\"9.9\"), in schema 2"), std::string::npos) << newer;
  EXPECT_NE(newer.find("reads schemas up to 1"), std::string::npos) << newer;
  json = json_of(full_machine());
  json.erase("peaks");
  EXPECT_NE(refusal(json).find("key 'peaks' not found"), std::string::npos) << refusal(json);
  json = json_of(full_machine());
  json["steps"][0]["batch"] = "two";
  EXPECT_NE(refusal(json).find("m.json: does not fit schema 1"), std::string::npos) << refusal(json);
  json = json_of(full_machine());
  json["ranks"] = 0;
  EXPECT_NE(refusal(json).find("0 ranks on 1 nodes"), std::string::npos);
  EXPECT_NE(refusal(nlohmann::json{{"ranks", 2}}).find("no description of a machine"), std::string::npos);
  EXPECT_NE(refusal(nlohmann::json::array()).find("no description of a machine"), std::string::npos);
  const keelson::testing::TemporaryFolder folder;
  EXPECT_THROW(read_machine_file(folder / "absent.json"), InputError);
  std::ofstream(folder / "cut.json") << "{\"kind\": ";
  EXPECT_THROW(read_machine_file(folder / "cut.json"), InputError);
}

TEST(Published, EachFigureHasItsSource) {
  ASSERT_FALSE(published_figures().empty());
  for (const auto& f : published_figures()) {
    EXPECT_GT(f.value, 0) << f.machine;
    EXPECT_GT(f.devices, 0) << f.machine;
    EXPECT_FALSE(f.source.empty() || f.where.empty() || f.what.empty()) << f.machine;
    EXPECT_TRUE(f.quantity == "samples_per_second" || f.quantity == "flops_per_second" ||
                f.quantity == "seconds_to_target" || f.quantity == "efficiency")
        << f.quantity;
  }
}

/// Tags and their ends, as many of each, in order; void elements and self-closing ones have none.
void expect_well_formed(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const auto end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const auto tag = html.substr(at + 1, end - at - 1);
    const auto name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.starts_with("!") || name == "meta" || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ("/" + open.back(), tag) << html.substr(at > 200 ? at - 200 : 0, 260);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(ComparisonPage, HoldsWhatWasMeasuredPublishedAndMissed) {
  const auto html = render_comparison({{full_machine(), poor_machine()}, published_figures(), 1000});
  expect_well_formed(html);
  for (const char* text :
       {"Big &lt;one&gt;", "A &amp; B", "not measured: no memory", "not measured: a step would take about 99 s",
        "not measured: peaks missing here", "not measured: one rank has no other rank to exchange with",
        "not measured: there is no /sys/class/powercap", "not measured: no room for samples", "samples/s of a device",
        "GB/s on the bus", "stroke-dasharray:4 2", "hpc_results_v3.0", "arXiv:1808.04728", "arXiv:1810.01993",
        "time to 1000 samples", "20.0 %", "80.0 %"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  for (const char* text : {"<script", "src=", "url(", "@import", ">nan<", ">inf<", "{}"})
    EXPECT_EQ(html.find(text), std::string::npos) << text;
  // 1000 samples at 4 samples/s and 3.5 an hour.
  EXPECT_NE(html.find("<td class='n'>0.243</td>"), std::string::npos);
}

TEST(ComparisonPage, TellsMachinesOfOneNameApart) {
  const auto html = render_comparison({{poor_machine(), poor_machine()}, {}, 1});
  EXPECT_NE(html.find("small (1)"), std::string::npos);
  EXPECT_NE(html.find("small (2)"), std::string::npos);
  expect_well_formed(html);
}

}  // namespace
}  // namespace keelson::bench::comparison
