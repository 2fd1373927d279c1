#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::comm {
namespace {

TEST(SelfCommunicator, IsAWorldOfOne) {
  const auto self = make_self();
  EXPECT_EQ(self->rank(), 0);
  EXPECT_EQ(self->size(), 1);
  EXPECT_EQ(self->local_size(), 1);
  EXPECT_EQ(self->nodes(), 1);
  EXPECT_FALSE(self->host().empty());
  self->barrier();
  double d = 3;
  self->allreduce(&d, 1, Reduction::sum);
  EXPECT_EQ(d, 3);
  EXPECT_EQ(self->allgather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(self->gather({1, 2}, 0), (std::vector<float>{1, 2}));
  EXPECT_THROW(self->gather({1}, 1), Error);
  EXPECT_EQ(self->split(-1, 0), nullptr);
  EXPECT_EQ(self->split(5, 0)->size(), 1);

  std::vector<float> data{1, 2, 3};
  const auto sum = self->make_allreduce(data.data(), data.size(), "data");
  sum->start();
  self->progress().advance();
  EXPECT_TRUE(sum->test());
  sum->wait();
  EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
  EXPECT_NO_THROW(compare_hash(*self, 7, "plans"));
}

TEST(SelfCommunicator, SendsToItself) {
  const auto self = make_self();
  std::vector<float> a{1, 2}, b{3, 4}, into_a(2), into_b(2);
  const auto send_a = self->make_send(a.data(), 8, 0, "a"), send_b = self->make_send(b.data(), 8, 0, "b");
  const auto receive_a = self->make_receive(into_a.data(), 8, 0, "a");
  const auto receive_b = self->make_receive(into_b.data(), 8, 0, "b");
  for (auto* each : {&send_a, &receive_b, &send_b}) (*each)->start();
  EXPECT_FALSE(send_a->test());
  EXPECT_EQ(into_b, b);
  receive_a->start();
  for (auto* each : {&send_a, &receive_b, &send_b, &receive_a}) (*each)->wait();
  EXPECT_EQ(into_a, a);

  send_a->start();
  EXPECT_THROW(send_a->wait(), Error) << "nobody receives";
  const auto short_receive = self->make_receive(into_a.data(), 4, 0, "c");
  const auto long_send = self->make_send(a.data(), 8, 0, "c");
  short_receive->start();
  EXPECT_THROW(long_send->start(), Error);
  EXPECT_THROW(self->make_send(a.data(), 8, 1, "no rank"), Error);
}

TEST(SelfCommunicator, IsTheWorldWithoutMpi) { EXPECT_EQ(make_world()->size(), 1); }

/// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Watchdog, ReadsTheEnvironment) {
  EXPECT_EQ(WatchdogOptions::from_environment().seconds, 300);
  EXPECT_EQ(WatchdogOptions::from_environment().abort_seconds, 900);
  EXPECT_EQ(WatchdogOptions::from_environment().abort_elsewhere_seconds, 0);
  const Variable limit("KEELSON_WATCHDOG", "2.5");
  EXPECT_EQ(WatchdogOptions::from_environment().seconds, 2.5);
  EXPECT_EQ(WatchdogOptions::from_environment().abort_seconds, 7.5);
  for (const double seconds : {9.0, 0.0}) {
    const Variable abort("KEELSON_WATCHDOG_ABORT", fmt::format("{}", seconds).c_str());
    EXPECT_EQ(WatchdogOptions::from_environment().abort_seconds, seconds);
    EXPECT_EQ(WatchdogOptions::from_environment().abort_elsewhere_seconds, seconds);
  }
  for (const char* wrong : {"-1", "soon", "5s", "nan"}) {
    const Variable bad("KEELSON_WATCHDOG", wrong);
    EXPECT_THROW(WatchdogOptions::from_environment(), InputError) << wrong;
  }
}

TEST(MpiSession, StartsNoMpiWithoutALauncher) {
  if (!MpiSession::launched().empty()) GTEST_SKIP() << "a launcher set " << MpiSession::launched();
  MpiSession session;
  EXPECT_FALSE(session.active());
  const auto outcomes = session.conclude({3, "text"});
  ASSERT_TRUE(outcomes.has_value());
  ASSERT_EQ(outcomes->size(), 1u);
  EXPECT_EQ((*outcomes)[0].message, "text");
}

TEST(MpiSession, KnowsLaunchers) {
  if (!MpiSession::launched().empty()) GTEST_SKIP() << "a launcher set " << MpiSession::launched();
  {
    const Variable rank("PMIX_RANK", "0");
    EXPECT_EQ(MpiSession::launched(), "PMIX_RANK");
    const Variable off("KEELSON_MPI", "off");
    EXPECT_FALSE(MpiSession().active());
    const Variable wrong("KEELSON_MPI", "perhaps");
    EXPECT_THROW(MpiSession(), InputError);
  }
  {
    const Variable step("SLURM_STEP_ID", "0"), rank("SLURM_PROCID", "0"), tasks("SLURM_STEP_NUM_TASKS", "4");
    EXPECT_EQ(MpiSession::launched(), "SLURM_STEP_NUM_TASKS");
    const Variable one("SLURM_STEP_NUM_TASKS", "1");
    EXPECT_EQ(MpiSession::launched(), "");
  }
}

}  // namespace
}  // namespace keelson::comm
