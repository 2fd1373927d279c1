#include "apps/label/project/labels.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/label/project/project.hpp"
#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::label::testing {
namespace {

constexpr const char* now = "2026-01-01T00:00:00Z";

std::string said(std::vector<std::int64_t> images, std::optional<std::int64_t> label, const std::string& who) {
  return Labels::labels_line(images, label, who, "test", now);
}

TEST(Labels, ConsensusIsThatOfMost) {
  Labels l(5, 3);
  l.apply(said({0, 1}, 2, "a"));
  l.apply(said({1}, 1, "b"));
  EXPECT_EQ(l.consensus(0), 2);
  EXPECT_EQ(l.consensus(1), std::nullopt) << "one against one";
  EXPECT_TRUE(l.is_disputed(1));
  l.apply(said({1}, 1, "c"));
  EXPECT_EQ(l.consensus(1), 1);
  l.apply(said({3}, unsure, "a"));
  EXPECT_EQ(l.consensus(3), std::nullopt);
  EXPECT_TRUE(l.is_seen(3));
  EXPECT_EQ(l.unseen(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(l.labelled(), (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {1, 1}}));
}

TEST(Labels, UndoTakesBackThePersonsOwnLinesOneByOne) {
  Labels l(4, 2);
  l.apply(said({0, 1, 2}, 1, "a"));
  l.apply(said({1, 1}, 0, "a"));
  l.apply(said({0}, 0, "b"));
  l.apply(Labels::undo_line("a", now));
  EXPECT_EQ(l.marks(1).at("a").label, 1) << "what it was before";
  l.apply(Labels::undo_line("a", now));
  EXPECT_FALSE(l.marks(1).contains("a"));
  EXPECT_EQ(l.consensus(0), 0) << "of b";
  EXPECT_FALSE(l.can_undo("a"));
  l.apply(Labels::undo_line("a", now));  // nothing left
  l.apply(said({0}, std::nullopt, "b"));
  EXPECT_FALSE(l.is_seen(0));
}

TEST(Labels, AuditCountsPredictionsOfTheirTime) {
  Labels l(10, 2);
  l.apply(Labels::batch_line({0, "first", {0, 1}, {}, {}}, now));
  l.apply(Labels::batch_line({1, "margin", {2}, {3, 4}, {0, 1}}, now));
  l.apply(Labels::batch_line({2, "margin", {5}, {6}, {1}}, now));
  l.apply(said({3, 4, 6}, 1, "a"));
  EXPECT_EQ(l.audit(5).count, 3);
  EXPECT_EQ(l.audit(5).right, 2);
  EXPECT_EQ(l.audit(1).count, 1) << "of the last batch alone";
  EXPECT_EQ(l.drawn_at_random(), (std::set<std::int64_t>{0, 1, 3, 4, 6}));
}

TEST(Labels, AgreementBeyondChance) {
  Labels l(4, 2);
  l.apply(said({0, 1}, 0, "a"));
  l.apply(said({2, 3}, 1, "a"));
  l.apply(said({0, 1, 2}, 0, "b"));
  l.apply(said({3}, 1, "b"));
  const auto all = l.agreements();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].both, 4);
  EXPECT_EQ(all[0].same, 3);
  EXPECT_NEAR(all[0].kappa, 0.5, 1e-12);  // (0.75 - 0.5) / (1 - 0.5)
}

TEST(Labels, RefuseWhatIsNotOfTheProject) {
  Labels l(4, 2);
  EXPECT_THROW(l.apply(said({4}, 0, "a")), InputError);
  EXPECT_THROW(l.apply(said({0}, 2, "a")), InputError);
  EXPECT_THROW(l.apply("{\"type\":\"other\"}"), InputError);
  EXPECT_THROW(l.apply("{}"), InputError);
  EXPECT_THROW(l.apply("nonsense"), InputError);
}

ProjectSettings settings_of(std::int64_t images) {
  ProjectSettings s;
  s.images.path = "/nowhere";
  s.classes = {"water", "ice, \"old\""};
  s.keys = "120";
  s.count = images;
  s.digest = 0xfedcba9876543210u;
  s.features.centre = {{1.5, 2}};
  return s;
}

TEST(Project, SettingsComeBack) {
  const ProjectSettings s = settings_of(7);
  const auto again = ProjectSettings::parse(s.to_json(), "here");
  EXPECT_EQ(again.to_json(), s.to_json());
  EXPECT_EQ(again.digest, s.digest);
  EXPECT_THROW(ProjectSettings::parse("{}", "here"), InputError);
  EXPECT_THROW(ProjectSettings::parse("[1", "here"), InputError);
}

/// A process that was killed while it wrote: the labels before stay, and the next ones are kept.
TEST(Project, KeepsLabelsBehindATornLine) {
  const keelson::testing::TemporaryFolder folder;
  const std::string path = folder / "project";
  Project::create(path, settings_of(3), Features{{2}, std::vector<float>(6)}, false);
  EXPECT_THROW(Project::create(path, settings_of(3), Features{{2}, std::vector<float>(6)}, false), InputError);
  {
    Project p(path, true);
    p.append(said({0}, 1, "a"));
    p.append(said({1}, 0, "a"));
  }
  const auto file = std::filesystem::path(path) / "journal.jsonl";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 9);
  Project p(path, true);
  EXPECT_EQ(p.labels().consensus(0), 1);
  EXPECT_FALSE(p.labels().is_seen(1));
  p.append(said({2}, 1, "a"));
  EXPECT_EQ(Project(path, false).labels().consensus(2), 1);
  EXPECT_EQ(p.class_of("ice, \"old\""), 1);
  EXPECT_THROW(p.class_of("snow"), InputError);
}

}  // namespace
}  // namespace keelson::label::testing
