#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "comm/placement.hpp"
#include "comm/placement/cgroup.hpp"

namespace keelson::comm {
namespace {

namespace fs = std::filesystem;

/// A root folder with some files in it.
class CgroupLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = fs::temp_directory_path() / ("keelson_cgroup_" + test);
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  double quota() const { return detail::cgroup_cpu_limit(root_.string()); }
  fs::path root_;
};

TEST_F(CgroupLimit, IsNoneWithoutControlGroups) { EXPECT_EQ(quota(), 0); }

TEST_F(CgroupLimit, IsTheLeastOfTheGroupAndItsParents) {
  write("proc/self/cgroup", "0::/jobs/42");
  write("sys/fs/cgroup/jobs/42/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/jobs/cpu.max", "350000 100000");
  EXPECT_EQ(quota(), 3.5);
  write("sys/fs/cgroup/jobs/42/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CgroupLimit, LiesAtTheMountInAContainer) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CgroupLimit, ReadsTheFirstVersion) {
  write("proc/self/cgroup", "7:memory:/docker/x\n4:cpu,cpuacct:/docker/x");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000");
  write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 4);
}

TEST_F(CgroupLimit, IgnoresNonsense) {
  write("proc/self/cgroup", "nonsense\n0::/");
  write("sys/fs/cgroup/cpu.max", "many of them");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CgroupLimit, IsBesideOneOfMemory) {
  const auto free = [&] { return detail::cgroup_free_memory(root_.string()); };
  write("proc/self/cgroup", "0::/jobs/42");
  EXPECT_FALSE(free());
  write("sys/fs/cgroup/jobs/42/memory.max", "max");
  write("sys/fs/cgroup/jobs/42/memory.current", "500");
  EXPECT_FALSE(free());
  write("sys/fs/cgroup/jobs/memory.max", "1000");
  write("sys/fs/cgroup/jobs/memory.current", "700");
  EXPECT_EQ(free(), 300);
  write("sys/fs/cgroup/jobs/memory.stat", "anon 400\nfile 300\nactive_file 200\ninactive_file 50\nshmem 50");
  EXPECT_EQ(free(), 550);
  write("sys/fs/cgroup/jobs/42/memory.max", "510");
  EXPECT_EQ(free(), 10);
  write("sys/fs/cgroup/jobs/42/memory.max", "499");
  EXPECT_EQ(free(), 0);
  write("proc/self/cgroup", "7:memory:/docker/x\n4:cpu,cpuacct:/docker/x");
  write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "900");
  write("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "800");
  write("sys/fs/cgroup/memory/docker/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 3");
  EXPECT_EQ(free(), 123);
}

TEST_F(CgroupLimit, OfMemoryBoundsWhatIsFree) {
  write("proc/meminfo", "MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:    1000 kB");
  unsetenv("SLURM_MEM_PER_NODE");
  EXPECT_EQ(free_memory(root_.string()).bytes, 1000 << 10);
  EXPECT_EQ(free_memory(root_.string()).source, "MemAvailable");
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/memory.max", "600000");
  write("sys/fs/cgroup/memory.current", "1000");
  EXPECT_EQ(free_memory(root_.string()).bytes, 599000);
  EXPECT_EQ(free_memory(root_.string()).source, "limit of the control group");
  EXPECT_GT(free_memory().bytes, 0);
}

}  // namespace
}  // namespace keelson::comm
