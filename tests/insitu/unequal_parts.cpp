#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/environment.hpp"
#include "tests/insitu/simulation.hpp"

/// Ranks whose parts of a field have different extents.
namespace keelson::testing {
namespace {

/// A field of so many rows on this rank, the same values on all ranks, and a network that learns it.
class UnequalRows {
 public:
  UnequalRows(MPI_Comm comm, std::int64_t rows, const std::vector<std::int64_t>& tile)
      : session_(comm),
        u_(MPI_COMM_SELF, "u", {rows, 6}, {.ghosts = 1}, wave),
        v_(MPI_COMM_SELF, "v", {rows, 6}, {.ghosts = 1}, wave) {
    for (Part* p : {&u_, &v_}) {
      auto desc = p->desc();
      KEELSON_WORKS(session_, keelson_insitu_field(session_, &desc));
    }
    keelson_insitu_model_desc model{};
    model.name = "net";
    model.layers = "batch_norm; conv 16 3; relu; conv 16 3; relu; conv 1 3";
    model.inputs = model.target = "u";
    model.output = "v";
    model.batch = 1;  // the same plan of inference on all ranks
    model.steps = 5;
    model.learning_rate = 0.01;
    for (std::size_t d = 0; d < tile.size(); ++d) model.tile[d] = tile[d];
    KEELSON_WORKS(session_, keelson_insitu_model(session_, &model));
    for (int i = 0; i < 4; ++i) KEELSON_WORKS(session_, keelson_insitu_train(session_, "net"));
    KEELSON_WORKS(session_, keelson_insitu_infer(session_, "net"));
  }
  std::vector<float> scores() {
    const float* all = nullptr;
    std::int64_t count = 0;
    KEELSON_WORKS(session_, keelson_insitu_scores(session_, "net", &all, &count));
    return {all, all + count};
  }
  double first_score() { return scores().empty() ? std::nan("") : scores()[0]; }
  std::vector<double> output() const { return v_.interior(); }

 private:
  OpenSession session_;
  Part u_, v_;
};

/// Of all ranks: the smallest and the largest.
std::pair<double, double> range_over_ranks(double value) {
  double ends[2] = {value, -value};
  MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return {-ends[1], ends[0]};
}

TEST(InsituUnequalParts, TrainOnTheTileThatFitsIntoAllOfThem) {
  const int rank = rank_of(MPI_COMM_WORLD), size = size_of_comm(MPI_COMM_WORLD);
  const std::int64_t least = 5, rows = rank == size - 1 ? least : 3 * least + rank;
  UnequalRows part(MPI_COMM_WORLD, rows, {});
  EXPECT_EQ(std::ssize(part.scores()), (rows + least - 1) / least);
  // All ranks have the same weights, so the first tile, which has the same values on all ranks, has the same result.
  const auto [low, high] = range_over_ranks(part.first_score());
  EXPECT_EQ(low, high);
  EXPECT_EQ(part.output().size(), static_cast<std::size_t>(rows * 6));
  // The tile may also be given.
  EXPECT_EQ(UnequalRows(MPI_COMM_WORLD, rows, {least, 6}).output(), part.output());
}

/// Files of choices for this rank alone, and algorithms that are measured.
class OwnChoices {
 public:
  OwnChoices()
      : cache_(environment("KEELSON_CACHE")),
        folder_(job_folder() + "/choices-" + std::to_string(rank_of(MPI_COMM_WORLD))) {
    setenv("KEELSON_TUNE", "on", 1);
    setenv("KEELSON_CACHE", folder_.c_str(), 1);
  }
  ~OwnChoices() {
    setenv("KEELSON_TUNE", "off", 1);
    setenv("KEELSON_CACHE", cache_.c_str(), 1);
  }
  OwnChoices(const OwnChoices&) = delete;

  /// Takes oneDNN's kernels with weights in blocks, wherever a choice has them, as if they had been the fastest.
  void prefer_blocks() const {
    if (!std::filesystem::exists(folder_)) return;  // backends that have no choice
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() != ".json") continue;
      auto choices = nlohmann::json::parse(std::ifstream(file.path()));
      for (auto& [key, choice] : choices.items()) {
        const auto at = key.find("jit:");  // in the list of candidates, " | jit:avx512_core | "
        const auto name = at == std::string::npos ? "" : key.substr(at, key.find(" | ", at) - at);
        if (!name.empty() && name.find(',') == std::string::npos) choice = name;
      }
      std::ofstream(file.path()) << choices;
    }
  }

 private:
  std::string cache_, folder_;
};

TEST(InsituUnequalParts, TrainAlikeWhereRanksHaveMeasuredOtherThings) {
  const int rank = rank_of(MPI_COMM_WORLD), size = size_of_comm(MPI_COMM_WORLD);
  if (size == 1) GTEST_SKIP() << "needs 2 ranks";
  const OwnChoices own;
  const std::int64_t rows = rank == size - 1 ? 7 : 6;
  {
    const UnequalRows measured(MPI_COMM_SELF, rows, {});
  }
  if (rank == size - 1) own.prefer_blocks();
  UnequalRows part(MPI_COMM_WORLD, rows, {});
  // Inference, which each rank plans for itself, may have other kernels and round otherwise.
  const auto [low, high] = range_over_ranks(part.first_score());
  EXPECT_LT(high - low, 1e-4 * std::abs(high)) << low << " " << high;
}

TEST(InsituUnequalParts, OfModelsThatOnlyInferAreTilesOfTheirOwn) {
  const std::int64_t rows = 6 + rank_of(MPI_COMM_WORLD);
  const OpenSession session;
  Part u(MPI_COMM_SELF, "u", {rows, 6}, {}, wave);
  auto desc = u.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  keelson_insitu_model_desc model{};
  model.name = "net";
  model.layers = "conv 2 3; relu; conv 1 3";
  model.inputs = "u";
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
  const float* scores = nullptr;
  std::int64_t count = 0;
  KEELSON_WORKS(session, keelson_insitu_scores(session, "net", &scores, &count));
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace keelson::testing
