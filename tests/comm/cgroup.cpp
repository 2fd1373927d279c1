#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "comm/placement/cgroup.hpp"

namespace keelson::comm {
namespace {

namespace fs = std::filesystem;

/// A root folder with some files in it.
class CgroupCpuLimit : public ::testing::Test {
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

TEST_F(CgroupCpuLimit, IsNoneWithoutControlGroups) { EXPECT_EQ(quota(), 0); }

TEST_F(CgroupCpuLimit, IsTheLeastOfTheGroupAndItsParents) {
  write("proc/self/cgroup", "0::/jobs/42");
  write("sys/fs/cgroup/jobs/42/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/jobs/cpu.max", "350000 100000");
  EXPECT_EQ(quota(), 3.5);
  write("sys/fs/cgroup/jobs/42/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CgroupCpuLimit, LiesAtTheMountInAContainer) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CgroupCpuLimit, ReadsTheFirstVersion) {
  write("proc/self/cgroup", "7:memory:/docker/x\n4:cpu,cpuacct:/docker/x");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000");
  write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 4);
}

TEST_F(CgroupCpuLimit, IgnoresNonsense) {
  write("proc/self/cgroup", "nonsense\n0::/");
  write("sys/fs/cgroup/cpu.max", "many of them");
  EXPECT_EQ(quota(), 0);
}

}  // namespace
}  // namespace keelson::comm
