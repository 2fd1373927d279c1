#include "search/method/population_training.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "engine/base/error.hpp"
#include "search/log/lines.hpp"
#include "search/run/virtual_clock.hpp"
#include "search/run/worker.hpp"
#include "tests/search/spaces.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::search {
namespace {

constexpr auto gene_of_rate = static_cast<std::size_t>(TrainingGene::rate);

Settings population_settings(const std::string& method, std::int64_t members, int rungs, std::uint64_t seed = 1) {
  Settings s;
  s.seed = seed;
  s.method = method;
  s.space = table_space();
  s.epochs = s.first_epochs = 2.0 * rungs;
  s.population = {.members = members, .interval = 2, .tournament = method == "ltfb" ? 0.1 : 0};
  s.space.restrict(R"({"dense": {"layers": [1, 1], "units": [16], "activation": ["relu"], "batch_norm": ["no"],
                                 "dropout": ["0"]}})");
  return s;
}

const Individual& member(const Population& p, std::int64_t id) { return p.all()[static_cast<std::size_t>(id)]; }

// ---- settings and lines

TEST(PopulationTraining, SettingsAreInTheLog) {
  Settings s = population_settings("ltfb", 5, 3);
  s.population.partition = true;
  const Settings read = Settings::parse(s.to_json());
  EXPECT_EQ(read.to_json(), s.to_json());
  EXPECT_TRUE(read.trains_population());
  EXPECT_EQ(read.rungs(), 3);
  EXPECT_EQ(read.epochs_of(0), 2);
  s.epochs = 5;
  EXPECT_EQ(s.rungs(), 3);
  EXPECT_EQ(s.epochs_of(2), 5);
  EXPECT_FALSE(Settings::parse(settings_of(table_space()).to_json()).trains_population());
}

TEST(PopulationTraining, NeedsOneDesign) {
  Space space = image_space();
  EXPECT_FALSE(only_design(space).has_value());
  space.restrict(R"({"stages": {"number": [2, 2], "kind": ["conv"], "filters": [8], "kernel_h": [3], "kernel_w": [3],
                                "stride": [1], "padding": ["same"], "activation": ["relu"], "batch_norm": ["no"],
                                "dropout": ["0"]}, "dense": {"layers": [0, 0]}})");
  const auto design = only_design(space);  // kernels of images have no depth, which has choices left
  ASSERT_TRUE(design.has_value());
  EXPECT_EQ(design->stages.size(), 2u);
  space.restrict(R"({"dense": {"layers": [0, 1]}})");
  EXPECT_FALSE(only_design(space).has_value());
}

TEST(PopulationTraining, BeginsWithTheUsersNetwork) {
  Settings s = population_settings("pbt", 3, 2);
  EXPECT_EQ(design_of(s), *only_design(s.space));
  s.space = table_space();
  EXPECT_THROW(make_method(s), InputError);  // several designs
  Genome start = design_of(population_settings("pbt", 3, 2));
  start.dense.resize(2);
  start.training[gene_of_rate] = 5;
  s.start = parse_start(to_json(start, s.space), s);
  const Settings read = Settings::parse(s.to_json());
  ASSERT_EQ(read.start, s.start);
  const auto search = search_virtually(read, *make_method(read), 3, {}, [](const Individual&, int rung) {
    return Result{.rung = rung, .loss = 1, .metric = 0, .seconds = 1, .step_ms = 1};
  });
  for (const Individual& i : search.population.all()) EXPECT_EQ(i.genome.dense.size(), 2u);
  EXPECT_EQ(member(search.population, 0).intervals[0].training, start.training);
  s.space.most_parameters = 10;
  EXPECT_THROW(parse_start(to_json(start, s.space), s), InputError);
  s.method = "random";
  EXPECT_THROW(parse_start(to_json(start, s.space), s), InputError);
}

/// Any line of the log may be torn. What is left never needs what is not there, and the search goes on.
TEST(PopulationTraining, GoesOnWithoutAnyLine) {
  for (const char* method : {"pbt", "ltfb"}) {
    const auto s = population_settings(method, 4, 3);
    const auto result_of = [](const Individual& i, int rung) {
      return Result{.rung = rung,
                    .loss = 1.0 / static_cast<double>(1 + i.id + rung),
                    .metric = 0,
                    .seconds = 1,
                    .step_ms = 1,
                    .tournament = std::pair{2.0, 1.0}};
    };
    const auto whole = search_virtually(s, Members(), 2, {}, result_of);
    for (std::size_t lost = 1; lost < whole.lines.size(); ++lost) {
      Population p;
      for (std::size_t k = 0; k < whole.lines.size(); ++k)
        if (k != lost) p.apply(whole.lines[k]);
      p.apply(start_line(1, 0));
      for (const Individual& i : p.all()) {
        ASSERT_LE(i.results.size(), i.intervals.size());
        i.genome_of_last();
      }
      for (int n = 0; n < 100; ++n) {
        const Job job = next_job(p, Members(), 0, {}, 0);
        if (job.kind == Job::Kind::done) break;
        ASSERT_EQ(job.kind, Job::Kind::train);
        p.apply(job.line);
        const auto id = claimed(p, job, 0);
        ASSERT_TRUE(id.has_value()) << job.line;
        p.apply(result_line(*id, result_of(p.all()[static_cast<std::size_t>(*id)], job.rung), 0));
      }
      ASSERT_EQ(p.all().size(), 4u);
      for (const Individual& i : p.all())
        EXPECT_EQ(i.results.size(), 3u) << method << ", without " << whole.lines[lost];
    }
  }
}

// ---- population based training

/// All members take the same time, and the loss of a member is its number: the worst k copy the best k, i from i mod k.
TEST(Pbt, TheWorstCopyTheBest) {
  const std::map<std::int64_t, std::vector<std::int64_t>> sources{
      {1, {0}}, {2, {0, 0}}, {3, {0, 1, 0}}, {4, {0, 1, 2, 0}}, {5, {0, 1, 2, 1, 0}}, {8, {0, 1, 2, 3, 4, 5, 0, 1}}};
  for (const auto& [members, expected] : sources) {
    const auto s = population_settings("pbt", members, 2);
    const auto search =
        search_virtually(s, Members(), static_cast<int>(members), {}, [](const Individual& i, int rung) {
          return Result{.rung = rung, .loss = static_cast<double>(i.id), .metric = 0, .seconds = 1, .step_ms = 1};
        });
    ASSERT_EQ(search.population.all().size(), static_cast<std::size_t>(members));
    for (const Individual& i : search.population.all()) {
      ASSERT_EQ(i.intervals.size(), 2u);
      EXPECT_EQ(i.intervals[0].source, -1);
      EXPECT_EQ(i.intervals[1].source, expected[static_cast<std::size_t>(i.id)]) << members << " members, " << i.id;
      EXPECT_EQ(i.intervals[1].source_rung, 0);
      if (i.intervals[1].source == i.id) {
        EXPECT_EQ(i.intervals[1].training, i.intervals[0].training);
      }
      EXPECT_EQ(i.genome.training, i.intervals[1].training);
      EXPECT_EQ(i.genome.dense, design_of(s).dense);
    }
  }
}

/// Lines of members that are not equally far. A member compares itself with those that have come as far, or farther.
class UnevenMembers {
 public:
  explicit UnevenMembers(std::int64_t members) {
    p.apply(population_settings("pbt", members, 9).to_json());
    p.apply(start_line(static_cast<int>(members), 0));
    for (int m = 0; m < members; ++m) p.apply(next_job(p, Members(), m, {}, 0).line);
  }
  void end(std::int64_t id, int rung, double loss) { p.apply(result_line(id, {.rung = rung, .loss = loss}, 1)); }
  void begin(std::int64_t id, Interval next) {
    p.apply(interval_line(id, static_cast<int>(std::ssize(member(p, id).results)), next, p.seen(), 0,
                          p.settings().space, 1));
  }
  Interval next(std::int64_t id) const { return next_interval(p, member(p, id)); }

  Population p;
};

TEST(Pbt, ComparesWithThoseThatHaveComeAsFar) {
  UnevenMembers m(4);
  for (std::int64_t id = 0; id < 4; ++id) m.end(id, 0, 1 + static_cast<double>(id));
  for (int rung = 1; rung < 3; ++rung) {  // member 3 is the worst, goes on alone, and becomes the best
    const Interval alone{.source = 3, .source_rung = rung - 1, .training = member(m.p, 3).genome.training};
    m.begin(3, alone);
    m.end(3, rung, rung == 1 ? 9 : 0.5);
  }
  EXPECT_EQ(m.next(3).source, 3);  // nobody else has come as far
  EXPECT_EQ(m.next(0).source, 0);
  EXPECT_EQ(m.next(2).source, 3);  // the worst now takes the newest weights of member 3
  EXPECT_EQ(m.next(2).source_rung, 2);
  EXPECT_EQ(next_member(m.p), 0);  // the least trained one
}

/// A worker that was slow names weights whose checkpoint is removed. Its line does not count, and it decides again.
TEST(Pbt, OldWeightsAreNotTaken) {
  UnevenMembers m(2);
  for (std::int64_t id = 0; id < 2; ++id) m.end(id, 0, static_cast<double>(id));
  const Interval slow = m.next(1);
  ASSERT_EQ(slow.source, 0);
  for (int rung = 1; rung < 3; ++rung) {
    m.begin(0, m.next(0));
    m.end(0, rung, 0);
  }
  EXPECT_FALSE(may_be_source(m.p, member(m.p, 0), 0));
  m.begin(1, slow);
  EXPECT_FALSE(member(m.p, 1).running);
  m.begin(1, m.next(1));
  EXPECT_TRUE(member(m.p, 1).running);
  EXPECT_EQ(member(m.p, 1).intervals.back().source_rung, 2);
  m.begin(0, m.next(0));
  m.end(0, 3, 0);
  m.begin(0, m.next(0));
  m.end(0, 4, 0);
  EXPECT_TRUE(may_be_source(m.p, member(m.p, 0), 2));  // member 1 began with these weights, and may begin again
  EXPECT_FALSE(may_be_source(m.p, member(m.p, 0), 1));
}

TEST(Pbt, PerturbsTheTraining) {
  const Space space = table_space();
  const auto value = [](const TrainingPart& t, TrainingGene g) { return t[static_cast<std::size_t>(g)]; };
  TrainingPart from{};
  from[gene_of_rate] = 14;
  from[static_cast<std::size_t>(TrainingGene::momentum)] = 3;
  int neighbours = 0, far = 0;
  constexpr int trials = 2000;
  for (std::uint64_t n = 0; n < trials; ++n) {
    Draws draws({n, philox::stream_of("test"), 0});
    const TrainingPart t = perturbed(from, space, draws);
    EXPECT_EQ(value(t, TrainingGene::optimizer), 0);
    EXPECT_NE(value(t, TrainingGene::momentum), 0);  // the optimizer's state has the velocity
    EXPECT_LT(t[gene_of_rate], static_cast<int>(space.training[gene_of_rate].choices.size()));
    const int moved = std::abs(t[gene_of_rate] - from[gene_of_rate]);
    neighbours += moved == 1 ? 1 : 0;
    far += moved > 1 ? 1 : 0;
    const int warmup = value(t, TrainingGene::warmup);  // at its first choice: stays, moves up, or is drawn
    EXPECT_GE(warmup, 0);
    from[static_cast<std::size_t>(TrainingGene::schedule)] = 0;
  }
  // 29 choices of the rate: a quarter is drawn, of which 26 of 29 are no neighbours.
  EXPECT_NEAR(far, trials * 0.25 * 26 / 29, 60);
  EXPECT_NEAR(neighbours, trials * (0.75 + 0.25 * 2 / 29), 60);
}

/// A planted problem: an interval adds to what the weights can do, the more, the closer the rate is to the best one.
/// The population finds rates that its members did not begin with, and is better than members that train alone.
TEST(Pbt, FindsTheRate) {
  const auto best_loss = [](std::int64_t exchanging) {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      Settings s = population_settings("pbt", 8, 16, seed);
      std::map<std::pair<std::int64_t, int>, double> skill;
      const auto search = search_virtually(s, Members(), 4, {}, [&](const Individual& i, int rung) {
        const Interval& now = i.intervals[static_cast<std::size_t>(rung)];
        const std::int64_t source = exchanging != 0 ? now.source : (rung == 0 ? -1 : i.id);
        const int rate = exchanging != 0 ? now.training[gene_of_rate] : i.intervals[0].training[gene_of_rate];
        const double before = source < 0 ? 0 : skill.at({source, exchanging != 0 ? now.source_rung : rung - 1});
        skill[{i.id, rung}] = before + 1.0 / (1 + std::abs(rate - 20));
        return Result{.rung = rung,
                      .loss = 1 / (1 + skill.at({i.id, rung})),
                      .metric = 0,
                      .seconds = 1 + 0.1 * static_cast<double>(i.id),
                      .step_ms = 1};
      });
      const auto& p = search.population;
      sum += member(p, p.best(1)[0]).last()->loss;
    }
    return sum / 5;
  };
  EXPECT_LT(best_loss(1), 0.8 * best_loss(0));
}

// ---- tournaments

TEST(Ltfb, PairsMembers) {
  for (const std::int64_t members : {1, 2, 7, 8}) {
    const auto s = population_settings("ltfb", members, 4);
    std::set<std::vector<std::int64_t>> rounds;
    for (int rung = 1; rung < 20; ++rung) {
      std::vector<std::int64_t> partners;
      std::int64_t alone = 0;
      for (std::int64_t m = 0; m < members; ++m) {
        const std::int64_t partner = ltfb_partner(s, rung, m);
        partners.push_back(partner);
        if (partner < 0) {
          ++alone;
          continue;
        }
        EXPECT_NE(partner, m);
        EXPECT_EQ(ltfb_partner(s, rung, partner), m);
      }
      EXPECT_EQ(alone, members % 2);
      rounds.insert(partners);
    }
    if (members > 2) {
      EXPECT_GT(rounds.size(), 10u);
    }
  }
  EXPECT_EQ(ltfb_partner(population_settings("ltfb", 4, 4), 0, 1), -1);
}

/// Losses in tournaments, and what comes of them: the partner's model is taken if its loss is less.
TEST(Ltfb, TheBetterModelWins) {
  for (const auto& [partner_loss, taken] : std::map<double, bool>{{0.4, true}, {0.5, false}, {0.6, false}}) {
    const auto s = population_settings("ltfb", 2, 2);
    const auto search = search_virtually(s, Members(), 2, {}, [&, loss = partner_loss](const Individual& i, int rung) {
      Result r{.rung = rung, .loss = 1, .metric = 0, .seconds = 1, .step_ms = 1};
      if (i.intervals.back().partner >= 0) r.tournament = {0.5, loss};
      return r;
    });
    for (const Individual& i : search.population.all()) {
      const std::int64_t other = 1 - i.id;
      EXPECT_EQ(i.intervals[1].partner, other);
      EXPECT_EQ(i.intervals[1].source, taken ? other : i.id);
      const auto& trained = member(search.population, taken ? other : i.id).intervals[0].training;
      EXPECT_EQ(i.intervals[1].training, trained);
      EXPECT_EQ(i.genome.training, trained);
    }
  }
}

/// Whatever the number of workers and the order of the ends, all members train to the end, no member begins before its
/// partner has come as far, and what is trained does not depend on the workers.
TEST(Ltfb, NobodyWaitsForever) {
  std::map<std::pair<std::int64_t, int>, std::int64_t> expected;
  std::map<std::int64_t, Genome> genomes;
  for (const int workers : {1, 2, 3, 7, 16}) {
    const auto s = population_settings("ltfb", 7, 6, 3);
    const auto search = search_virtually(s, Members(), workers, {}, [](const Individual& i, int rung) {
      Draws draws({static_cast<std::uint64_t>(i.id), philox::stream_of("loss"), static_cast<std::uint64_t>(rung)});
      Result r{.rung = rung, .loss = draws.uniform(), .metric = 0, .seconds = std::exp(draws.normal()), .step_ms = 1};
      if (i.intervals.back().partner >= 0) r.tournament = {draws.uniform(), draws.uniform()};
      return r;
    });
    for (const Individual& i : search.population.all()) {
      EXPECT_EQ(i.results.size(), 6u) << workers;
      EXPECT_EQ(genomes.emplace(i.id, i.genome).first->second, i.genome);
      for (int rung = 0; rung < 6; ++rung) {
        const std::int64_t source = i.intervals[static_cast<std::size_t>(rung)].source;
        EXPECT_EQ(expected.emplace(std::pair(i.id, rung), source).first->second, source);
      }
    }
    Population p;
    for (const std::string& line : search.lines) {
      if (p.begun() && Line(line).text("type") == "run") {
        const Interval begun = parse_interval(Line(line), s.space);
        const auto rung = Line(line).whole("rung");
        EXPECT_EQ(begun.partner, ltfb_partner(s, static_cast<int>(rung), Line(line).whole("id")));
        if (begun.partner >= 0) {
          EXPECT_GE(std::ssize(member(p, begun.partner).results), rung);
        }
      }
      p.apply(line);
    }
  }
}

/// A member that fails is not waited for.
TEST(Ltfb, GoesOnWithoutAMember) {
  Population p;
  p.apply(population_settings("ltfb", 2, 2).to_json());
  p.apply(start_line(2, 0));
  for (int m = 0; m < 2; ++m) p.apply(next_job(p, Members(), m, {}, 0).line);
  p.apply(result_line(0, {.rung = 0, .loss = 1}, 1));
  EXPECT_EQ(next_member(p), std::nullopt);
  EXPECT_EQ(next_job(p, Members(), 0, {}, 1).kind, Job::Kind::wait);
  p.apply(failure_line(1, 0, "the loss is not finite", false, 1));
  ASSERT_EQ(next_member(p), 0);
  EXPECT_EQ(next_interval(p, member(p, 0)).partner, -1);
}

// ---- the log is the whole state

/// Each birth and each interval follows from the lines before its own.
TEST(PopulationTraining, FollowsFromTheLog) {
  for (const std::string method : {"pbt", "ltfb"}) {
    const auto s = population_settings(method, 9, 8, 5);
    const auto search = search_virtually(s, Members(), 4, {}, [](const Individual& i, int rung) {
      Draws draws({static_cast<std::uint64_t>(i.id), philox::stream_of("loss"), static_cast<std::uint64_t>(rung)});
      Result r{.rung = rung, .loss = draws.uniform(), .metric = 0, .seconds = std::exp(draws.normal()), .step_ms = 1};
      if (i.intervals.back().partner >= 0) r.tournament = {draws.uniform(), draws.uniform()};
      return r;
    });
    Population p;
    int births = 0, intervals = 0, copies = 0;
    for (const std::string& text : search.lines) {
      const Line line(text);
      if (line.text("type") == "birth") {
        ++births;
        const auto made = next_individual(p, Members(), static_cast<int>(line.whole("slot")));
        EXPECT_EQ(made->genome, parse_birth(line, s.space).genome);
      } else if (line.text("type") == "run") {
        ++intervals;
        const Interval made = next_interval(p, member(p, line.whole("id"))), logged = parse_interval(line, s.space);
        EXPECT_EQ(line.whole("seen"), p.seen());
        EXPECT_EQ(made.source, logged.source);
        EXPECT_EQ(made.source_rung, logged.source_rung);
        EXPECT_EQ(made.partner, logged.partner);
        EXPECT_EQ(made.training, logged.training);
        copies += logged.source != line.whole("id") || logged.partner >= 0 ? 1 : 0;
      }
      p.apply(text);
    }
    EXPECT_EQ(births, 9);
    EXPECT_EQ(intervals, 9 * 7);
    EXPECT_GT(copies, 5) << method;
    for (const Individual& i : p.all())
      EXPECT_EQ(i.genome, member(search.population, i.id).genome) << method << " " << i.id;
  }
}

/// Workers in threads on one log, some of which die. Checkpoints are those that may_be_source() keeps: whatever a
/// member begins with is there.
class Checkpoints {
 public:
  void write(std::int64_t id, int rung) {
    const std::lock_guard lock(mutex_);
    all_.emplace(id, rung);
  }
  bool has(std::int64_t id, int rung) {
    const std::lock_guard lock(mutex_);
    return all_.contains({id, rung});
  }
  void remove_others(const Population& p) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [&](const auto& c) {
      return c.first < std::ssize(p.all()) && !may_be_source(p, member(p, c.first), c.second);
    });
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<std::int64_t, int>> all_;
};

void work_in_threads(const std::filesystem::path& path, int workers,
                     const std::function<Result(const Individual&, int)>& train,
                     const std::function<void(const Population&)>& tell) {
  std::vector<std::thread> threads;
  const Members method;
  for (int slot = 0; slot < workers; ++slot)
    threads.emplace_back([&, slot] {
      SearchLog log(path, true);
      Population population;
      log.read_new([&](const std::string& line) { population.apply(line); });
      WorkerTask task{log, population, method, slot, {}};
      task.seconds_between_looks = 0.002;
      task.train = train;
      task.tell = tell;
      work(task);
    });
  for (auto& t : threads) t.join();
}

TEST(PopulationTraining, WorkersDie) {
  for (const std::string method : {"pbt", "ltfb"}) {
    const testing::TemporaryFolder folder;
    const auto path = folder / "search.jsonl";
    const auto ignore = [](const std::string&) {};
    {
      SearchLog log(path, true);
      log.append(population_settings(method, 5, 6, 2).to_json(), ignore);
      log.append(start_line(3, seconds_since_1970()), ignore);
    }
    Checkpoints checkpoints;
    std::mutex mutex;
    int missing = 0, trainings = 0;
    const auto train = [&](bool dies) {
      return [&, dies](const Individual& i, int rung) -> Result {
        const Interval& now = i.intervals[static_cast<std::size_t>(rung)];
        {
          const std::lock_guard lock(mutex);
          ++trainings;
          if (now.source >= 0 && !checkpoints.has(now.source, now.source_rung)) ++missing;
          if (now.partner >= 0 && !checkpoints.has(now.partner, now.source_rung)) ++missing;
        }
        if (dies && rung == 2 && i.id % 2 == 1) throw Interrupted("killed");
        checkpoints.write(i.id, rung);
        Draws draws({static_cast<std::uint64_t>(i.id), philox::stream_of("loss"), static_cast<std::uint64_t>(rung)});
        Result r{.rung = rung, .loss = draws.uniform()};
        if (now.partner >= 0) r.tournament = {draws.uniform(), draws.uniform()};
        return r;
      };
    };
    const auto tell = [&](const Population& p) { checkpoints.remove_others(p); };
    // Two members die at their third interval, each with its worker; a third worker would wait for them.
    work_in_threads(path, 2, train(true), tell);
    SearchLog(path, true).append(start_line(3, seconds_since_1970()), ignore);
    work_in_threads(path, 3, train(false), tell);
    Population p;
    SearchLog(path, false).read_new([&](const std::string& line) { p.apply(line); });
    EXPECT_EQ(missing, 0) << method;
    EXPECT_EQ(p.running(), 0);
    for (const Individual& i : p.all()) EXPECT_EQ(i.results.size(), 6u);
    EXPECT_EQ(trainings, 5 * 6 + 2) << method;  // what died is trained again, no more
    checkpoints.remove_others(p);
    EXPECT_LE(checkpoints.size(), 5u * (method == "pbt" ? 2 : 1));
  }
}

}  // namespace
}  // namespace keelson::search
