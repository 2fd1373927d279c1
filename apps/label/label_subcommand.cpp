#include <fmt/format.h>

#include "apps/common/subcommand.hpp"
#include "apps/label/project/csv.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

struct LabelOptions {
  std::string project, csv, annotator = "csv";
};

ExitCode take_labels(const LabelOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label label runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  if (o.csv.empty()) refuse("give --csv: a file of labels");
  Project project(o.project, true);
  const auto images = project.open_images();
  const ImportedLabels done = import_labels(project, *images, o.csv, o.annotator);
  fmt::print("{}: {} taken, {} known already, {} left out, which are empty or a model's\n", o.csv,
             counted(done.taken, "label"), done.same, counted(done.left_out, "line"));
  return ExitCode::done;
}

}  // namespace

void define_label(app::CommandLine& line) {
  auto o = std::make_shared<LabelOptions>();
  auto& v = line.subcommand("label", "Take the labels of people from a CSV file",
                            [o](app::Launch& launch) { return take_labels(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  v.option_without_default("--csv", o->csv, "File with the columns id, or file and index; and label", "FILE");
  v.option("--annotator", o->annotator, "Whose labels those are that the file gives to nobody", "NAME");
}

}  // namespace keelson::label
