#include "apps/label/project/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/utc_time.hpp"
#include "engine/data/tables/table_text.hpp"

namespace keelson::label {
namespace {

std::string quoted_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// p_0 to round, empty without predictions.
std::string opinion_fields(const StoredPredictions* s, std::int64_t image, std::size_t classes) {
  if (s == nullptr) return std::string(classes + 4, ',');
  const Opinion& o = s->opinions[static_cast<std::size_t>(image)];
  std::string text;
  for (const double p : o.p) text += fmt::format(",{:.6f}", p);
  return text + fmt::format(",{:.6f},{:.6f},{:.6f},{}", o.std, o.bald, o.margin, s->round);
}

/// The columns of a file of labels; -1: it has none of this name.
struct Columns {
  int id = -1, file = -1, index = -1, label = -1, source = -1, annotator = -1;
  explicit Columns(const std::vector<std::string>& names) {
    const std::pair<const char*, int*> wanted[] = {{"id", &id},       {"file", &file},     {"index", &index},
                                                   {"label", &label}, {"source", &source}, {"annotator", &annotator}};
    for (const auto& [name, column] : wanted) {
      const auto found = std::ranges::find(names, name);
      if (found != names.end()) *column = static_cast<int>(found - names.begin());
    }
  }
};

}  // namespace

std::string labels_csv(const Project& project, const Images& images, const StoredPredictions* s, double confidence) {
  const auto& classes = project.settings().classes;
  std::string text = "id,file,index,label,source,annotator";
  for (std::size_t k = 0; k < classes.size(); ++k) text += fmt::format(",p_{}", k);
  text += ",std,bald,margin,round,time\n";
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto line = [&](const std::string& label, const char* source, const std::string& who,
                          const std::string& time) {
      text += fmt::format("{},{},{},{},{},{}{},{}\n", i, quoted_field(images.file_of(i)), images.index_in_file(i),
                          quoted_field(label), source, quoted_field(who), opinion_fields(s, i, classes.size()), time);
    };
    for (const auto& [name, mark] : project.labels().marks(i))
      line(project.class_name(mark.label), "person", name, mark.time);
    if (project.labels().is_seen(i)) continue;
    std::string label;
    if (s != nullptr) {
      const Opinion& o = s->opinions[static_cast<std::size_t>(i)];
      if (o.p[static_cast<std::size_t>(o.best())] >= confidence) label = project.class_name(o.best());
    }
    line(label, "model", "", "");
  }
  return text;
}

ImportedLabels import_labels(Project& project, const Images& images, const std::filesystem::path& csv,
                             const std::string& annotator) {
  const RawFile file(csv.string());
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> places;
  for (std::int64_t i = 0; i < images.size(); ++i) places[{images.file_of(i), images.index_in_file(i)}] = i;
  std::optional<Columns> columns;
  std::size_t names = 0;
  std::map<std::tuple<std::string, std::int64_t>, std::vector<std::int64_t>> by;  // person and class -> images
  ImportedLabels result;
  for_each_row(file, {0, file.size()}, [&](std::string_view row, std::int64_t at) {
    const auto where = [&] { return fmt::format("{}, line {}", csv.string(), line_of(file, at)); };
    const auto fields = fields_of_row(row, ',');
    if (!columns) {
      columns.emplace(fields);
      names = fields.size();
      if (columns->label < 0 || (columns->id < 0 && (columns->file < 0 || columns->index < 0)))
        refuse(
            "{}: has no column label, or neither id nor file and index; expected a file as keelson-label report "
            "--csv writes it",
            where());
      return;
    }
    if (fields.size() != names) refuse("{}: has {} fields, expected {}", where(), fields.size(), names);
    const auto field = [&](int column) {
      return column < 0 ? std::string() : fields[static_cast<std::size_t>(column)];
    };
    if (field(columns->label).empty() || field(columns->source) == "model") {
      ++result.left_out;
      return;
    }
    std::int64_t image = -1;
    if (columns->id >= 0) {
      const auto id = parse_number<std::int64_t>(field(columns->id));
      if (!id || *id < 0 || *id >= images.size())
        refuse("{}: the id '{}' is none of the {} images", where(), field(columns->id), images.size());
      image = *id;
    } else {
      const auto index = parse_number<std::int64_t>(field(columns->index));
      const auto found = places.find({field(columns->file), index.value_or(-1)});
      if (found == places.end())
        refuse("{}: there is no image {} in {}", where(), field(columns->index), field(columns->file));
      image = found->second;
    }
    std::int64_t label = unsure;
    try {
      label = project.class_of(field(columns->label));
    } catch (const InputError& error) {
      refuse("{}: {}", where(), error.what());
    }
    const std::string who = field(columns->annotator).empty() ? annotator : field(columns->annotator);
    const auto& marks = project.labels().marks(image);
    if (const auto found = marks.find(who); found != marks.end() && found->second.label == label) {
      ++result.same;
      return;
    }
    by[{who, label}].push_back(image);
    ++result.taken;
  });
  const std::string now = utc_now();
  for (const auto& [key, list] : by)
    project.append(Labels::labels_line(list, std::get<1>(key), std::get<0>(key), csv.filename().string(), now));
  return result;
}

}  // namespace keelson::label
