#include "apps/label/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/common/report/png.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "page_files.hpp"

namespace keelson::label {
namespace {

using nlohmann::json;

std::string frame(const Project& project, const std::string& annotator, const std::string& before_script,
                  const std::string& nonce) {
  std::string classes, rounds;
  for (std::int64_t k = 0; k < std::ssize(project.settings().classes); ++k)
    classes += fmt::format("<option value=\"{}\">{}</option>", k, app::plot::escape(project.class_name(k)));
  for (std::size_t b = 0; b < project.labels().batches().size(); ++b)
    rounds += fmt::format("<option value=\"{0}\">batch {0}</option>", b + 1);
  const std::string mark = nonce.empty() ? "" : fmt::format(" nonce=\"{}\"", nonce);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Labels</title><style>{0}</style></head>\n<body>\n"
      "<header><h1 id=\"title\">Labels</h1><span id=\"progress\"></span>"
      "<label>show <select id=\"filter\"><option value=\"batch\">last batch</option><option "
      "value=\"unlabelled\">unlabelled</option><option value=\"all\">all</option><option value=\"mine\">my "
      "labels</option><option value=\"disagree\">networks disagree with label</option><option "
      "value=\"disputed\">people "
      "disagree</option><option value=\"class\">class</option><option value=\"round\">a batch</option></select></label>"
      "<label>class <select id=\"class\">{1}</select></label><label>batch <select "
      "id=\"round\">{2}</select></label><label>who <input class=\"name\" id=\"annotator\" value=\"{3}\"></label>"
      "<button id=\"undo\">undo</button><button id=\"export\" hidden>labels as CSV</button><span "
      "id=\"message\" role=\"status\"></span></header>\n"
      "<header id=\"keys\"></header>\n<main><div id=\"gallery\" tabindex=\"0\"><div id=\"rows\"></div></div><aside "
      "id=\"details\"></aside></main>\n<footer><span id=\"status\"></span><span>Keys: a class labels the image with "
      "the "
      "frame, or all that are chosen (Shift and arrows, Shift or Ctrl and click). Backspace: undo.</span></footer>\n"
      "{4}<script{5}>{6}</script>\n</body></html>\n",
      page_css, classes, rounds, app::plot::escape(annotator), before_script, mark, page_js);
}

/// JSON that may stand in a script: no "</script>".
std::string for_script(const json& j) {
  std::string text = j.dump();
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos; at += 6) text.replace(at, 1, "\\u003c");
  return text;
}

json state_of_project(const Project& project, const std::string& annotator) {
  const Labels& labels = project.labels();
  std::int64_t seen = 0, batch_left = 0;
  for (std::int64_t i = 0; i < labels.images(); ++i) seen += labels.is_seen(i) ? 1 : 0;
  if (!labels.batches().empty())
    for (const std::int64_t i : order_of(labels.batches().back())) batch_left += labels.is_seen(i) ? 0 : 1;
  constexpr std::int64_t audit_rounds = 5;
  return {{"title", project.folder().filename().empty() ? project.folder().parent_path().filename().string()
                                                        : project.folder().filename().string()},
          {"classes", project.settings().classes},
          {"keys", project.keys()},
          {"count", labels.images()},
          {"seen", seen},
          {"batch_left", batch_left},
          {"can_undo", labels.can_undo(annotator)},
          {"status", describe(project.progress(audit_rounds), StopRule{})}};
}

}  // namespace

std::string server_page(const Project& project, const std::string& annotator, const std::string& nonce) {
  return frame(project, annotator, "", nonce);
}

std::vector<std::int64_t> order_of(const AskedBatch& b) {
  std::vector<std::int64_t> all = b.images;
  for (std::size_t i = 0; i < b.audit.size(); ++i) {
    const std::size_t place = (i + 1) * (b.images.size() + b.audit.size()) / (b.audit.size() + 1);
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(std::min(place, all.size())), b.audit[i]);
  }
  return all;
}

std::string state_json(const Project& project, const std::string& annotator) {
  return state_of_project(project, annotator).dump();
}

std::string details_json(const Project& project, const Images& images, const StoredPredictions* s, std::int64_t image,
                         const std::string& picture) {
  json j{{"file", images.file_of(image)}, {"index", images.index_in_file(image)}};
  auto& profile = j["profile"] = json::array();
  for (const double v : radial_profile(images.read(image), project.settings().features))
    profile.push_back(std::isfinite(v) ? json(v) : json());
  auto& marks = j["marks"] = json::array();
  for (const auto& [name, mark] : project.labels().marks(image))
    marks.push_back({{"annotator", name}, {"label", mark.label}, {"time", mark.time}});
  if (s != nullptr) {
    const Opinion& o = s->opinions[static_cast<std::size_t>(image)];
    j["p"] = o.p;
    j["best"] = o.best();
    j["std"] = o.std;
    std::vector<std::int64_t> votes(o.p.size());
    const auto p = s->of.of(image);
    for (std::int64_t m = 0; m < s->of.members; ++m) {
      const auto one = p.subspan(static_cast<std::size_t>(m * s->of.classes), static_cast<std::size_t>(s->of.classes));
      ++votes[static_cast<std::size_t>(std::ranges::max_element(one) - one.begin())];
    }
    j["votes"] = votes;
  }
  if (!picture.empty()) j["picture"] = picture;
  return j.dump();
}

std::string picture_of(const Project& project, const Images& images, std::int64_t image, std::int64_t edge) {
  static const std::vector<app::Colour> grey = [] {
    std::vector<app::Colour> all;
    for (int i = 0; i < 256; ++i) {
      const auto g = static_cast<std::uint8_t>(i);
      all.push_back({g, g, g});
    }
    return all;
  }();
  const auto pixels = thumbnail(images.read(image), edge, project.settings().features.log);
  return app::png(static_cast<int>(edge), static_cast<int>(edge), pixels, grey);
}

std::string single_page(const Project& project, const Images& images, const StoredPredictions* s,
                        const AskedBatch& batch, const std::string& annotator) {
  constexpr std::int64_t edge = 128;
  json data{{"state", state_of_project(project, annotator)}};
  data["name"] =
      fmt::format("keelson-label {:016x} batch {}", project.settings().digest, project.labels().batches().size());
  auto& list = data["images"] = json::array();
  auto& details = data["details"] = json::object();
  for (const std::int64_t i : order_of(batch)) {
    json item{{"id", i}, {"best", nullptr}, {"p", nullptr}};
    if (s != nullptr) {
      const Opinion& o = s->opinions[static_cast<std::size_t>(i)];
      item["best"] = o.best();
      item["p"] = o.p[static_cast<std::size_t>(o.best())];
    }
    list.push_back(item);
    const std::string picture = "data:image/png;base64," + app::base64(picture_of(project, images, i, edge));
    details[std::to_string(i)] = json::parse(details_json(project, images, s, i, picture));
  }
  data["state"]["count"] = list.size();
  data["state"]["can_undo"] = false;
  data["state"].erase("batch_left");
  return frame(project, annotator, "<script>window.KEELSON_DATA = " + for_script(data) + ";</script>\n", "");
}

}  // namespace keelson::label
