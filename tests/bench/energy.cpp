#include "apps/bench/compare/energy.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/fake_async_device.hpp"

namespace keelson::bench::comparison {
namespace {

namespace fs = std::filesystem;

/// A folder like /sys/class/powercap.
class Powercap {
 public:
  void zone(const std::string& folder, const std::string& name, std::uint64_t microjoules,
            std::uint64_t range = 1000000000) {
    fs::create_directories(root() / folder);
    write(folder + "/name", name);
    write(folder + "/max_energy_range_uj", std::to_string(range));
    set(folder, microjoules);
  }
  void set(const std::string& folder, std::uint64_t microjoules) {
    write(folder + "/energy_uj", std::to_string(microjoules));
  }
  void write(const std::string& file, const std::string& text) { std::ofstream(root() / file) << text << '\n'; }
  fs::path root() const { return folder_.path(); }

 private:
  keelson::testing::TemporaryFolder folder_;
};

TEST(Powercap, CountsPackagesAndMemoryOnce) {
  Powercap p;
  fs::create_directories(p.root() / "intel-rapl");  // the control type itself has no zone
  p.zone("intel-rapl:0", "package-0", 1000000);
  p.zone("intel-rapl:0:0", "core", 500000);
  p.zone("intel-rapl:0:1", "uncore", 100000);
  p.zone("intel-rapl:0:2", "dram", 2000000);
  p.zone("intel-rapl:1", "package-1", 0);
  p.zone("intel-rapl:2", "psys", 7);
  p.zone("intel-rapl-mmio:0", "package-0", 1000000);
  PowercapReader reader(p.root());
  ASSERT_EQ(reader.reason(), "");
  EXPECT_EQ(reader.zones(), "package-0, dram, package-1");
  reader.start();
  for (const char* zone : {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:0:2", "intel-rapl:1",
                           "intel-rapl:2", "intel-rapl-mmio:0"})
    p.set(zone, 5000000);
  EXPECT_DOUBLE_EQ(reader.joules(), 4 + 3 + 5);
}

TEST(Powercap, CountsTheWholePlatformWhereNoPackageIs) {
  Powercap p;
  p.zone("intel-rapl:0", "psys", 0);
  p.zone("intel-rapl:0:0", "core", 0);
  PowercapReader reader(p.root());
  reader.start();
  p.set("intel-rapl:0", 2500000);
  EXPECT_DOUBLE_EQ(reader.joules(), 2.5);
}

TEST(Powercap, GoesOnWhereACounterBeginsAnew) {
  Powercap p;
  p.zone("intel-rapl:0", "package-0", 900, 1000);
  PowercapReader reader(p.root());
  reader.start();
  p.set("intel-rapl:0", 400);
  EXPECT_DOUBLE_EQ(reader.joules(), 500e-6);
}

TEST(Powercap, SaysWhyNothingCanBeMeasured) {
  Powercap p;
  EXPECT_NE(PowercapReader(p.root() / "absent").reason().find("there is no"), std::string::npos);
  EXPECT_NE(PowercapReader(p.root()).reason().find("no zone package-* or psys (found: none)"), std::string::npos);
  p.zone("intel-rapl:0", "package-0", 1);
  p.write("intel-rapl:0/energy_uj", "many");
  EXPECT_NE(PowercapReader(p.root()).reason().find("energy_uj holds 'many', expected a number of microjoules"),
            std::string::npos);
  fs::remove(p.root() / "intel-rapl:0/energy_uj");
  const auto reason = PowercapReader(p.root()).reason();
  EXPECT_NE(reason.find("energy_uj cannot be read (No such file"), std::string::npos) << reason;
  EXPECT_NE(reason.find("chmod a+r"), std::string::npos) << reason;
}

TEST(Powercap, FailsWhereACounterGoesAway) {
  Powercap p;
  p.zone("intel-rapl:0", "package-0", 1);
  PowercapReader reader(p.root());
  reader.start();
  fs::remove(p.root() / "intel-rapl:0/energy_uj");
  EXPECT_THROW(reader.joules(), Error);
}

TEST(EnergyMeter, AddsWhatIsThereAndTellsWhatIsNot) {
  Powercap p;
  p.zone("intel-rapl:0", "package-0", 0);
  const auto world = comm::make_self();
  auto& device = keelson::testing::context(keelson::testing::contexts().front()).device();
  if (!device.shares_host_memory()) GTEST_SKIP() << "a GPU has its own counter";
  EnergyMeter meter(*world, device, p.root());
  EXPECT_EQ(meter.reason(), "");
  EXPECT_EQ(meter.source(), "processors and memory (RAPL: package-0)");
  meter.start();
  p.set("intel-rapl:0", 3000000);
  EXPECT_DOUBLE_EQ(meter.joules(), 3);
  EXPECT_NE(EnergyMeter(*world, device, p.root() / "absent").reason().find("there is no"), std::string::npos);
}

TEST(EnergyMeter, AddsAGpuToItsProcessors) {
  using keelson::testing::FakeAsyncDevice;
  Powercap p;
  p.zone("intel-rapl:0", "package-0", 0);
  const auto world = comm::make_self();
  FakeAsyncDevice gpu(FakeAsyncDevice::Reach::device, "0000:1b:00.0");
  EXPECT_EQ(EnergyMeter(*world, gpu, p.root()).reason(), "no counter");
  gpu.set_energy({100.0, "the board"});
  EnergyMeter both(*world, gpu, p.root()), alone(*world, gpu, p.root() / "absent");
  EXPECT_EQ(both.source(), "the board; processors and memory (RAPL: package-0)");
  EXPECT_EQ(alone.reason(), "");  // a figure without its processors says so
  EXPECT_EQ(alone.source().find("the board; without processors: there is no"), 0u) << alone.source();
  both.start();
  alone.start();
  p.set("intel-rapl:0", 2000000);
  gpu.set_energy({107.0, "the board"});
  EXPECT_DOUBLE_EQ(both.joules(), 9);
  EXPECT_DOUBLE_EQ(alone.joules(), 7);
}

}  // namespace
}  // namespace keelson::bench::comparison
