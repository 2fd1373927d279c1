#include "search/run/worker.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/search/spaces.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::search {
namespace {

/// Workers in threads, each with its own view of one log. Counts the trainings.
class Workers {
 public:
  explicit Workers(const Settings& settings) {
    SearchLog log(path(), true);
    log.append(settings.to_json(), [](const std::string&) {});
    log.append(start_line(1, seconds_since_1970()), [](const std::string&) {});
  }
  std::filesystem::path path() const { return folder_ / "search.jsonl"; }

  void run(int workers, const Budget& budget, const std::function<Result(const Individual&, int)>& train) {
    std::vector<std::thread> threads;
    for (int slot = 0; slot < workers; ++slot)
      threads.emplace_back([&, slot] {
        SearchLog log(path(), true);
        Population population;
        WorkerTask task{log, population, method_, slot, budget};
        log.read_new([&](const std::string& line) { population.apply(line); });
        task.seconds_between_looks = 0.005;
        task.train = [&](const Individual& i, int rung) {
          {
            const std::lock_guard lock(mutex_);
            ++trained[{i.id, rung}];
          }
          return train(i, rung);
        };
        work(task);
      });
    for (auto& t : threads) t.join();
  }

  Population read() const {
    Population population;
    SearchLog(path(), false).read_new([&](const std::string& line) { population.apply(line); });
    return population;
  }

  std::map<std::pair<std::int64_t, int>, int> trained;  ///< how often each network was trained to each rung

 private:
  testing::TemporaryFolder folder_;
  Evolution method_;
  std::mutex mutex_;
};

Settings two_rungs() {
  Settings s = settings_of(table_space(), 3);
  s.epochs = 4;
  s.first_epochs = 1;
  return s;
}

double loss_of_key(const Individual& i) {
  return Draws({philox::stream_of(i.key), philox::stream_of("loss"), 0}).uniform();
}

/// Workers that begin at the same time claim different trainings; each is done once, and none is forgotten.
TEST(Worker, SharesTheWork) {
  constexpr int networks = 60;
  Workers workers(two_rungs());
  workers.run(4, {.networks = networks},
              [](const Individual& i, int rung) { return Result{.rung = rung, .loss = loss_of_key(i)}; });
  const Population p = workers.read();
  EXPECT_EQ(p.all().size(), static_cast<std::size_t>(networks));
  EXPECT_EQ(p.running(), 0);
  std::int64_t trainings = 0;
  for (const Individual& i : p.all()) {
    EXPECT_GE(i.results.size(), 1u) << i.id;
    trainings += std::ssize(i.results);
  }
  EXPECT_EQ(std::ssize(workers.trained), trainings);
  for (const auto& [which, times] : workers.trained) EXPECT_EQ(times, 1) << which.first << " rung " << which.second;
  EXPECT_FALSE(p.promotable().has_value());
}

/// A loss that is not finite ends a network at once; a network that needs too much memory is tried once more.
TEST(Worker, TriesOnceMore) {
  Workers workers(two_rungs());
  workers.run(1, {.networks = 6}, [](const Individual& i, int rung) -> Result {
    if (i.id == 2) throw Diverged("the loss is not finite");
    if (i.id == 4) throw OutOfMemory("no memory");
    return {.rung = rung, .loss = loss_of_key(i)};
  });
  const Population p = workers.read();
  EXPECT_EQ((workers.trained[{2, 0}]), 1);
  EXPECT_EQ((workers.trained[{4, 0}]), 2);
  EXPECT_EQ(p.all()[2].failure, "the loss is not finite");
  EXPECT_EQ(p.all()[4].failure, "no memory");
  EXPECT_EQ(p.with_results(), 4);
  EXPECT_EQ(p.running(), 0);
}

/// A full disk is no fault of the network: the worker ends, and the network is trained later.
TEST(Worker, EndsWhenItCannotTrain) {
  const testing::TemporaryFolder folder;
  const Settings s = two_rungs();
  SearchLog log(folder / "search.jsonl", true);
  Population population;
  const auto take = [&](const std::string& line) { population.apply(line); };
  log.append(s.to_json(), take);
  log.append(start_line(1, seconds_since_1970()), take);
  const Evolution method;
  WorkerTask task{log, population, method, 0, {.networks = 3}};
  task.train = [](const Individual&, int) -> Result { throw Error("No space left on device"); };
  for (int starts = 0; starts < 4; ++starts) {
    EXPECT_THROW(work(task), Error);
    EXPECT_EQ(population.all().size(), 1u);
    EXPECT_EQ(population.all()[0].failure, "");
    log.append(start_line(1, seconds_since_1970()), take);
  }
  task.train = [](const Individual& i, int rung) { return Result{.rung = rung, .loss = loss_of_key(i)}; };
  work(task);
  EXPECT_EQ(population.with_results(), 3);
}

/// A search that starts again trains at once what was trained when its workers ended.
TEST(Worker, GoesOn) {
  Workers workers(two_rungs());
  workers.run(2, {.networks = 5}, [](const Individual& i, int rung) -> Result {
    if (i.id >= 3) throw Interrupted("killed");
    return {.rung = rung, .loss = loss_of_key(i)};
  });
  const Population before = workers.read();
  EXPECT_GE(before.running(), 1);
  SearchLog(workers.path(), true).append(start_line(1, seconds_since_1970()), [](const std::string&) {});
  workers.run(1, {.networks = 8},
              [](const Individual& i, int rung) { return Result{.rung = rung, .loss = loss_of_key(i)}; });
  const Population p = workers.read();
  EXPECT_EQ(p.running(), 0);
  EXPECT_EQ(p.all().size(), 8u);
  EXPECT_EQ(p.with_results(), 8);
}

/// Two workers begin the last network at the same time: the first line counts, as for equal genomes.
TEST(Population, HasNoMoreNetworksThanTheBudget) {
  Population p;
  p.apply(settings_of(table_space()).to_json());
  p.apply(start_line(2, 0));
  const RandomSearch method;
  const Job first = next_job(p, method, 0, {.networks = 1}, 1), second = next_job(p, method, 1, {.networks = 1}, 1);
  ASSERT_NE(first.key, second.key);
  p.apply(first.line);
  EXPECT_TRUE(claimed(p, first, 0).has_value());
  p.apply(second.line);
  EXPECT_FALSE(claimed(p, second, 1).has_value());
  EXPECT_EQ(p.all().size(), 1u);
  p.apply(next_job(p, method, 1, {.networks = 2}, 2).line);  // resumed with more networks
  EXPECT_EQ(p.all().size(), 2u);
}

/// A worker that is silent for longer than the lease has lost its training.
TEST(Population, Lease) {
  Settings s = settings_of(table_space());
  s.least_lease = 10;
  Population p;
  p.apply(s.to_json());
  p.apply(start_line(1, 0));
  const RandomSearch method;
  double now = 0;
  for (int n = 0; n < 6; ++n) {
    const Job job = next_job(p, method, 0, {}, now);
    p.apply(job.line);
    if (n == 5) break;
    EXPECT_EQ(p.lost(now + 1e6), std::nullopt);  // nobody knows yet how long trainings take
    p.apply(result_line(n, {.rung = 0, .loss = 1, .metric = 0, .seconds = 4, .step_ms = 1}, now += 4));
  }
  EXPECT_EQ(p.lease(0), 12);
  EXPECT_EQ(p.lost(now + 11), std::nullopt);
  EXPECT_EQ(p.lost(now + 13), 5);
}

}  // namespace
}  // namespace keelson::search
