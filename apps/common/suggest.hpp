#pragma once

#include <string>
#include <vector>

namespace keelson::app {

/// The known word nearest to `word`, by edits (insertions, deletions, replacements, swaps of neighbours); empty if no
/// word is near enough for a typing error.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

/// "; did you mean --batch?", or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace keelson::app
