#include "apps/common/report/sample_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/svg_plot.hpp"

namespace keelson::app {
namespace {

constexpr std::size_t listed_samples = 20;

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// The first `most` of the samples that `chosen` accepts, in the order of `before`.
template <class Chosen, class Before>
std::vector<std::int64_t> first_samples(const SampleTable& t, std::size_t most, const Chosen& chosen,
                                        const Before& before) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < t.loss.size(); ++i)
    if (chosen(i)) all.push_back(static_cast<std::int64_t>(i));
  const auto order = [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return before(i, j) || (!before(j, i) && a < b);
  };
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::ranges::partial_sort(all, end, order);
  all.erase(end, all.end());
  return all;
}

std::string sample_table(const SampleTable& t, const Dataset& data, const std::vector<std::int64_t>& samples,
                         const std::string& title, const std::string& none) {
  std::string out = "<div class='card'><h3>" + title + "</h3>";
  if (samples.empty()) return out + "<p class='note'>" + none + "</p></div>";
  out +=
      "<table><tr><th>file</th><th class='n'>row</th><th class='n'>last loss</th><th class='n'>times learned</th>"
      "<th class='n'>times forgotten</th></tr>";
  for (const std::int64_t sample : samples) {
    const auto i = static_cast<std::size_t>(sample);
    out += fmt::format(
        "<tr><td>{}</td><td class='n'>{}</td><td class='n'>{:.4g}</td><td class='n'>{}</td><td class='n'>{}</td></tr>",
        plot::escape(data.file_of(sample)), data.row_of(sample), t.loss[i], t.learned[i], t.forgotten[i]);
  }
  return out + "</table></div>";
}

}  // namespace

std::string samples_csv(const SamplePruning& pruning, const Dataset& data, std::int64_t epochs) {
  const SampleTable& t = pruning.table();
  const std::vector<float> scores = pruning.scores();
  std::string out = "file,row,index,score,last_loss,times_learned,times_forgotten,kept_share\n";
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i);
    const double kept = epochs > 0 ? static_cast<double>(t.used[i]) / static_cast<double>(epochs) : 0;
    out += fmt::format("{},{},{},{},{},{},{},{:.4g}\n", csv_text(data.file_of(sample)), data.row_of(sample), sample,
                       scores[i], t.loss[i], t.learned[i], t.forgotten[i], kept);
  }
  return out;
}

std::vector<std::int64_t> forgotten_samples(const SampleTable& t, std::size_t most) {
  return first_samples(
      t, most, [&](std::size_t i) { return t.forgotten[i] > 0; },
      [&](std::size_t i, std::size_t j) {
        return t.forgotten[i] != t.forgotten[j] ? t.forgotten[i] > t.forgotten[j] : t.loss[i] > t.loss[j];
      });
}

std::vector<std::int64_t> unlearned_samples(const SampleTable& t, std::size_t most) {
  return first_samples(
      t, most, [&](std::size_t i) { return t.learned[i] == 0 && t.visits[i] >= 2; },
      [&](std::size_t i, std::size_t j) { return t.loss[i] > t.loss[j]; });
}

ReportInput::Section samples_section(const SamplePruning& pruning, const Dataset& data) {
  const SampleTable& t = pruning.table();
  return {
      "Training samples",
      "<div class='grid2'>" +
          sample_table(t, data, forgotten_samples(t, listed_samples), "Forgotten most often: these matter",
                       "No sample was learned and then forgotten.") +
          sample_table(t, data, unlearned_samples(t, listed_samples), "Never learned: look at their targets",
                       "Every sample was learned at least once.") +
          "</div><p class='note'>samples.csv has all samples. A row is the number of the sample in its file, from 0 "
          "on.</p>"};
}

std::string out_of_bag_csv(const ensemble::OutOfBag& samples, const Dataset& data) {
  std::string out = "file,row,index,members,loss\n";
  for (std::size_t i = 0; i < samples.losses().size(); ++i) {
    const double loss = samples.losses()[i];
    const auto sample = static_cast<std::int64_t>(i);
    out += fmt::format("{},{},{},{},{}\n", csv_text(data.file_of(sample)), data.row_of(sample), i, samples.members()[i],
                       std::isnan(loss) ? "" : fmt::format("{:.6g}", loss));
  }
  return out;
}

std::string out_of_bag_table(const ensemble::OutOfBag& samples, const Dataset& data) {
  std::string out =
      "<div class='card'><table class='narrow'><tr><th>file</th><th class='n'>row</th><th class='n'>members</th><th "
      "class='n'>loss</th></tr>";
  for (const std::int64_t sample : samples.largest(listed_samples)) {
    const auto i = static_cast<std::size_t>(sample);
    out +=
        fmt::format("<tr><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{:.4g}</td></tr>",
                    plot::escape(data.file_of(sample)), data.row_of(sample), samples.members()[i], samples.losses()[i]);
  }
  return out +
         "</table></div><p class='note'>The largest losses of training samples by the members whose bags do not have "
         "them: look at their targets. A row is the number of the sample in its file, from 0 on.</p>";
}

}  // namespace keelson::app
